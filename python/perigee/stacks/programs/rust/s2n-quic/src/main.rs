// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! A server of a folder's files, and a client that fetches one, by s2n-quic: each file over a stream of its own, without HTTP.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use perigee_options::{Done, Options, FAREWELL};
use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{Bbr, Cubic};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls;
use s2n_quic::{Client, Connection, Server};

#[tokio::main]
async fn main() -> Done {
    let options = Options::read()?;
    if options.is_server {
        serve(options).await
    } else {
        fetch(&options).await
    }
}

async fn serve(options: Options) -> Done {
    let (certificate, key) = (Path::new(options.text("certificate")?), Path::new(options.text("key")?));
    let tls = rustls::Server::builder().with_certificate(certificate, key)?.build()?;
    let builder = Server::builder().with_tls(tls)?.with_io(options.listen()?)?.with_limits(limits(&options)?)?;
    let mut server = match options.text("control")? {
        "cubic" => builder.with_congestion_controller(Cubic::default())?.start()?,
        "bbr" => builder.with_congestion_controller(Bbr::default())?.start()?,
        other => return Err(format!("{other}: no such congestion control").into()),
    };
    let options = Arc::new(options);
    while let Some(connection) = server.accept().await {
        let options = options.clone();
        tokio::spawn(async move { answer(connection, &options).await });
    }
    Ok(())
}

/// Answers the requests of a connection until it ends.
async fn answer(mut connection: Connection, options: &Options) -> Done {
    while let Some(mut stream) = connection.accept_bidirectional_stream().await? {
        let mut name = Vec::new();
        while let Some(chunk) = stream.receive().await? {
            name.extend_from_slice(&chunk);
        }
        stream.send(std::fs::read(options.served(&name)?)?.into()).await?;
        stream.close().await?;
    }
    Ok(())
}

async fn fetch(options: &Options) -> Done {
    let tls = rustls::Client::builder().with_certificate(Path::new(options.text("certificate")?))?.build()?;
    let builder = Client::builder().with_tls(tls)?.with_io("0.0.0.0:0")?.with_limits(limits(options)?)?;
    let client = match options.text("control")? {
        "cubic" => builder.with_congestion_controller(Cubic::default())?.start()?,
        "bbr" => builder.with_congestion_controller(Bbr::default())?.start()?,
        other => return Err(format!("{other}: no such congestion control").into()),
    };
    let (address, name) = options.asked()?;
    let mut connection = client.connect(Connect::new(address).with_server_name("localhost")).await?;
    let mut stream = connection.open_bidirectional_stream().await?;
    stream.send(name.as_bytes().to_vec().into()).await?;
    stream.finish()?;
    let mut file = options.output()?;
    while let Some(chunk) = stream.receive().await? {
        file.write_all(&chunk)?;
    }
    connection.close(0u32.into());
    tokio::time::sleep(FAREWELL).await;
    Ok(())
}

fn limits(options: &Options) -> Done<Limits> {
    let limits = Limits::default();
    Ok(match options.window()? {
        Some(window) => limits
            .with_data_window(window.into())?
            .with_bidirectional_local_data_window(window.into())?
            .with_bidirectional_remote_data_window(window.into())?
            .with_max_send_buffer_size(window)?,
        None => limits,
    })
}
