// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! An HTTP/3 server of a folder's files, and a client that fetches one, by quiche and its runtime tokio-quiche.

use std::io::Write as _;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use perigee_options::{Done, Options, FAREWELL};
use tokio::net::UdpSocket;
use tokio_quiche::http3::driver::{
    ClientH3Event, H3Event, InboundFrame, IncomingH3Headers, NewClientRequest, OutboundFrame, ServerH3Event,
};
use tokio_quiche::http3::settings::Http3Settings;
use tokio_quiche::metrics::DefaultMetrics;
use tokio_quiche::quic::connect_with_config;
use tokio_quiche::quiche::h3::{Header, NameValue as _};
use tokio_quiche::settings::{CertificateKind, Hooks, QuicSettings, TlsCertificatePaths};
use tokio_quiche::socket::Socket;
use tokio_quiche::{ClientH3Driver, ConnectionParams, ServerH3Controller, ServerH3Driver};

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
    let (cert, private_key) = (options.text("certificate")?, options.text("key")?);
    let tls = TlsCertificatePaths { cert, private_key, kind: CertificateKind::X509 };
    let parameters = ConnectionParams::new_server(settings(&options)?, tls, Hooks::default());
    let socket = UdpSocket::bind(options.listen()?).await?;
    let mut listeners = tokio_quiche::listen([socket], parameters, DefaultMetrics)?;
    let options = Arc::new(options);
    while let Some(connection) = listeners[0].next().await {
        let (driver, controller) = ServerH3Driver::new(Http3Settings::default());
        connection?.start(driver);
        let options = options.clone();
        tokio::spawn(async move { answer(controller, options).await });
    }
    Ok(())
}

/// Answers the requests of a connection until it ends.
async fn answer(mut controller: ServerH3Controller, options: Arc<Options>) {
    while let Some(event) = controller.event_receiver_mut().recv().await {
        if let ServerH3Event::Headers { incoming_headers, .. } = event {
            let options = options.clone();
            tokio::spawn(async move { send(incoming_headers, &options).await });
        }
    }
}

/// Answers a request.
async fn send(mut request: IncomingH3Headers, options: &Options) -> Done {
    let path = request.headers.iter().find(|header| header.name() == b":path").ok_or("no path")?;
    let content = std::fs::read(options.served(path.value())?)?;
    let head = OutboundFrame::Headers(vec![Header::new(b":status", b"200")], None);
    let chunks = content.chunks(CHUNK).map(|chunk| OutboundFrame::Body(chunk.to_vec().into(), false));
    let last = OutboundFrame::Body(Vec::new().into(), true);
    for frame in [head].into_iter().chain(chunks).chain([last]) {
        request.send.send(frame).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn fetch(options: &Options) -> Done {
    let (address, name) = options.asked()?;
    let socket = UdpSocket::bind("0.0.0.0:0").await?;
    socket.connect(address).await?;
    let (driver, mut controller) = ClientH3Driver::new(Http3Settings::default());
    let parameters = ConnectionParams::new_client(settings(options)?, None, Hooks::default());
    let _connection = connect_with_config(Socket::try_from(socket)?, Some("localhost"), &parameters, driver).await?;
    let path = format!("/{name}");
    let headers = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", &path)];
    let headers = headers.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).to_vec();
    let request = NewClientRequest { request_id: 0, headers, body_writer: None };
    controller.request_sender().send(request).map_err(|error| error.to_string())?;
    while let Some(event) = controller.event_receiver_mut().recv().await {
        match event {
            ClientH3Event::Core(H3Event::IncomingHeaders(answer)) => {
                receive(answer, options).await?;
                drop(controller);
                tokio::time::sleep(FAREWELL).await;
                return Ok(());
            }
            ClientH3Event::Core(H3Event::ConnectionError(error)) => return Err(error.into()),
            ClientH3Event::Core(H3Event::ConnectionShutdown(Some(error))) => return Err(error.into()),
            _ => {}
        }
    }
    Err("the connection has ended without an answer".into())
}

async fn receive(mut answer: IncomingH3Headers, options: &Options) -> Done {
    let status = answer.headers.iter().find(|header| header.name() == b":status").ok_or("no status")?;
    if status.value() != b"200" {
        return Err(format!("status {}", String::from_utf8_lossy(status.value())).into());
    }
    let mut file = options.output()?;
    while let Some(frame) = answer.recv.recv().await {
        if let InboundFrame::Body(bytes, is_last) = frame {
            file.write_all(&bytes)?;
            if is_last {
                return Ok(());
            }
        }
    }
    Err("the answer ended early".into())
}

fn settings(options: &Options) -> Done<QuicSettings> {
    let mut settings = QuicSettings::default();
    settings.cc_algorithm = options.text("control")?.to_owned();
    settings.qlog_dir = options.qlog();
    // Without it a server asks for a Retry, which the servers of other stacks do not.
    settings.disable_client_ip_validation = true;
    if let Some(window) = options.window()?.map(u64::from) {
        settings.initial_max_data = window;
        settings.initial_max_stream_data_bidi_local = window;
        settings.initial_max_stream_data_bidi_remote = window;
        settings.max_connection_window = window;
        settings.max_stream_window = window;
    }
    Ok(settings)
}

/// Bytes that are handed over at a time.
const CHUNK: usize = 1 << 16;
