// SPDX-License-Identifier: GPL-2.0-only OR MIT

// A server of a folder's files, and a client that fetches one: each file over a stream of its own, without HTTP. quinn and its fork
// noq have the same interface: whoever includes this file says with `quic`, `Bbr` and `BBR` which of them is meant.

use std::io::Write as _;
use std::sync::Arc;

use perigee_options::{Done, Options, FAREWELL};
use quic::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use quic::{rustls, ClientConfig, Connection, Endpoint, Incoming, ServerConfig, TransportConfig};

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
    let mut config = ServerConfig::with_single_cert(options.certificates()?, options.key()?)?;
    config.transport_config(transport(&options)?);
    let endpoint = Endpoint::server(config, options.listen()?)?;
    let options = Arc::new(options);
    while let Some(incoming) = endpoint.accept().await {
        let options = options.clone();
        tokio::spawn(async move { answer(incoming, &options).await });
    }
    Ok(())
}

/// Answers the requests of a connection until it ends.
async fn answer(incoming: Incoming, options: &Options) -> Done {
    let connection = incoming.await?;
    loop {
        let (mut sent, mut asked) = connection.accept_bi().await?;
        let name = asked.read_to_end(1 << 10).await?;
        sent.write_all(&std::fs::read(options.served(&name)?)?).await?;
        sent.finish()?;
    }
}

async fn fetch(options: &Options) -> Done {
    let mut trusted = rustls::RootCertStore::empty();
    trusted.add_parsable_certificates(options.certificates()?);
    let mut config = ClientConfig::with_root_certificates(Arc::new(trusted))?;
    config.transport_config(transport(options)?);
    let (address, name) = options.asked()?;
    let endpoint = Endpoint::client(([0, 0, 0, 0], 0).into())?;
    let connection = endpoint.connect_with(config, address, "localhost")?.await?;
    receive(&connection, name, options).await?;
    connection.close(0u32.into(), b"");
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    Ok(())
}

async fn receive(connection: &Connection, name: &str, options: &Options) -> Done {
    let (mut asked, mut received) = connection.open_bi().await?;
    asked.write_all(name.as_bytes()).await?;
    asked.finish()?;
    let mut file = options.output()?;
    let mut buffer = vec![0; 1 << 16];
    while let Some(count) = received.read(&mut buffer).await? {
        file.write_all(&buffer[..count])?;
    }
    Ok(())
}

fn transport(options: &Options) -> Done<Arc<TransportConfig>> {
    let control: Arc<dyn ControllerFactory + Send + Sync> = match options.text("control")? {
        "cubic" => Arc::new(CubicConfig::default()),
        "reno" => Arc::new(NewRenoConfig::default()),
        BBR => Arc::new(Bbr::default()),
        other => return Err(format!("{other}: no such congestion control").into()),
    };
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(control);
    if let Some(window) = options.window()? {
        transport.stream_receive_window(window.into()).receive_window(window.into()).send_window(window.into());
    }
    Ok(Arc::new(transport))
}
