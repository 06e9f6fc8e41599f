//! Boxes that a gateway does not know, or knows no more, and terminals that take places.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use perigee_quic::stack::crypto::rustls::QuicClientConfig;
use perigee_quic::stack::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, FourTuple, StreamId,
};
use rustix::process::Signal;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use crate::tunnel::Path;
use crate::world::{accept, PATIENCE};

/// A client's verdict on the certificate of its server; the text of an error is sent to it.
#[derive(Debug)]
struct Verdict(Result<(), String>);

impl ServerCertVerifier for Verdict {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.clone().map(|()| ServerCertVerified::assertion()).map_err(Error::General)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_tls13_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Settings of a box that is none of ours; perhaps with a certificate and its key.
fn client(verdict: Result<(), String>, own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>) -> ClientConfig {
    let builder = rustls::ClientConfig::builder_with_provider(default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verdict(verdict)));
    let mut tls = match own {
        Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![b"perigee-pep/1".to_vec()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

/// A connection to a gateway, driven by hand.
struct Driven {
    socket: UdpSocket,
    endpoint: Endpoint,
    connection: Connection,
}

impl Driven {
    fn new(config: ClientConfig, from: &str, to: SocketAddr) -> Self {
        let socket = UdpSocket::bind(from).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut endpoint = Endpoint::new(Arc::default(), None, true);
        let (_, connection) = endpoint.connect(Instant::now(), config, to, "gateway").unwrap();
        Self { socket, endpoint, connection }
    }

    /// Sends and receives until something holds.
    fn until(&mut self, holds: impl Fn(&mut Connection) -> bool) {
        let began = Instant::now();
        loop {
            self.send();
            if holds(&mut self.connection) {
                return;
            }
            self.receive(began);
        }
    }

    /// Sends and receives until something holds, and does not answer what made it so.
    fn silent_once(&mut self, holds: impl Fn(&mut Connection) -> bool) {
        let began = Instant::now();
        while !holds(&mut self.connection) {
            self.send();
            self.receive(began);
        }
    }

    fn send(&mut self) {
        let mut out = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(Instant::now(), NonZeroUsize::MIN, &mut out) {
            self.socket.send_to(&out[..transmit.size], transmit.destination).unwrap();
            out.clear();
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            let _ = self.endpoint.handle_event(ConnectionHandle(0), event);
        }
    }

    fn receive(&mut self, began: Instant) {
        assert!(began.elapsed() < PATIENCE);
        let mut datagram = [0; 2000];
        if let Ok((length, from)) = self.socket.recv_from(&mut datagram) {
            let bytes = datagram[..length].into();
            let event =
                self.endpoint.handle(Instant::now(), FourTuple::from_remote(from), None, bytes, &mut Vec::new());
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
        if self.connection.poll_timeout().is_some_and(|at| at <= Instant::now()) {
            self.connection.handle_timeout(Instant::now());
        }
    }
}

#[test]
fn a_stranger_writes_no_line_of_its_own_into_the_log() {
    let Some(path) = Path::new() else { return };
    let gateway = path.gateway();
    let forged = "x\"\nconnection rule=far end=complete reason=\"FORGED\"\n\u{1b}[31m";
    let began = Instant::now();
    for _ in 0..20 {
        path.world.router.enter(|| {
            let config = client(Err(forged.to_owned()), None);
            Driven::new(config, "10.2.0.1:0", "10.2.0.2:4433".parse().unwrap()).until(|one| one.is_closed());
        });
    }
    gateway.await_line(&["tunnel refused peer=10.2.0.1:"]);
    let seconds = began.elapsed().as_secs();
    let log = gateway.stop();
    let lines: Vec<_> = log.iter().filter(|line| line.starts_with("tunnel refused")).collect();
    assert!(lines.len() as u64 <= seconds + 1, "{log:#?}");
    assert!(!log.iter().any(|line| line.contains("FORGED") || line.contains('\u{1b}')), "{log:#?}");
}

#[test]
fn a_handshake_that_gives_way_to_another_leaves_nothing_behind() {
    let Some(path) = Path::new() else { return };
    let gateway = path.gateway();
    // Each proves its address and begins, and is silent then: the gateway has no round trip to go by.
    path.world.router.enter(|| {
        for _ in 0..80 {
            let to = "10.2.0.2:4433".parse().unwrap();
            Driven::new(client(Ok(()), None), "10.2.0.1:0", to).silent_once(|one| one.stats().udp_rx.datagrams > 0);
        }
    });
    thread::sleep(Duration::from_millis(200));
    // As many as an address may have under way.
    let under_way = path.status("gateway", "tunnel_handshakes");
    assert!((1..=32).contains(&under_way), "{under_way}");
    gateway.stop();
}

#[test]
fn streams_that_do_not_say_what_they_are_for_take_places_and_are_given_up() {
    let Some(mut path) = Path::new() else { return };
    path.grace_s = 6;
    let gateway = path.gateway_with("[limits]\nconnections = 4\n");
    let certificate = CertificateDer::from_pem_file(path.file("terminal", "pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(path.file("terminal", "key")).unwrap();
    let config = client(Ok(()), Some((certificate, key)));
    // One that is busy for long, and another one of the same terminal that comes back.
    let open = |count: usize| {
        path.world.router.enter(|| {
            let mut driven = Driven::new(config.clone(), "10.2.0.1:0", "10.2.0.2:4433".parse().unwrap());
            driven.until(|one| one.stats().frame_rx.handshake_done > 0);
            let mut streams: Vec<StreamId> = Vec::new();
            while streams.len() < count {
                driven.until(|one| one.stats().frame_rx.max_streams_bidi > 0);
                let stream = driven.connection.streams().open(Dir::Bi).unwrap();
                // The first byte of an opening.
                driven.connection.send_stream(stream).write(&[1]).unwrap();
                streams.push(stream);
            }
            (driven, streams)
        })
    };
    let (mut first, _) = open(4);
    first.until(|_| path.status("gateway", "tunnel_waiting") == 4);
    let (mut second, _) = open(1);
    second.until(|one| one.stats().frame_rx.stop_sending > 0);
    gateway.await_line(&["refused terminal=10.2.0.1:", "the limit of connections is reached"]);
    // The gateway's own time for them, in which their terminals may be in the dark.
    first.until(|one| one.stats().frame_rx.stop_sending == 4);
    gateway.await_line(&["refused terminal=", "the opening was not completed in time"]);
    assert_eq!(path.status("gateway", "tunnel_waiting"), 0);
    gateway.stop();
}

#[test]
fn a_terminal_whose_certificate_is_taken_away_is_served_no_more() {
    let Some(path) = Path::new() else { return };
    let (gateway, terminal) = (path.gateway(), path.terminal());
    terminal.await_line(&["tunnel up"]);
    gateway.await_line(&["tunnel up"]);
    let listener = path.town.listen("10.3.0.2:80");
    let mut socket = path.world.client.connect("10.3.0.2:80");
    let (mut far, _) = accept(&listener);
    std::io::Write::write_all(&mut far, b"hi").unwrap();
    std::io::Read::read_exact(&mut socket, &mut [0; 2]).unwrap();
    let known = path.file("terminal", "pem");
    let own = std::fs::read(&known).unwrap();
    // The file has another certificate then, as an editor writes it.
    let other = known.with_extension("new");
    std::fs::copy(path.file("stranger", "pem"), &other).unwrap();
    std::fs::rename(&other, &known).unwrap();
    gateway.signal(Signal::HUP);
    gateway.await_line(&["tunnel down", "its certificate is no longer among the known ones"]);
    gateway.await_line(&["reloaded"]);
    assert!(crate::world::read_all(&mut socket).1.is_err());
    // Not with the session of the connection that it had, either.
    gateway.await_line(&["tunnel refused peer=10.2.0.1:"]);
    assert_eq!(terminal.log().iter().filter(|line| line.starts_with("tunnel up")).count(), 1);
    std::fs::write(&known, own).unwrap();
    gateway.signal(Signal::HUP);
    let began = Instant::now();
    while gateway.log().iter().filter(|line| line.starts_with("tunnel up")).count() < 2 {
        assert!(began.elapsed() < PATIENCE, "{:#?}", gateway.log());
        thread::sleep(Duration::from_millis(10));
    }
    terminal.stop();
    gateway.stop();
}

#[test]
fn strangers_who_begin_handshakes_neither_lock_terminals_out_nor_take_memory() {
    let Some(path) = Path::new() else { return };
    let gateway = path.gateway();
    let mut endpoint = Endpoint::new(Arc::default(), None, true);
    let config = client(Err("never".to_owned()), None);
    let to = "10.2.0.2:4433".parse().unwrap();
    // One Initial of each, and never an answer, as if the addresses were forged.
    path.world.router.enter(|| {
        let socket = UdpSocket::bind("10.2.0.1:0").unwrap();
        for at in 0..1_100 {
            let (_, mut connection) = endpoint.connect(Instant::now(), config.clone(), to, "gateway").unwrap();
            let mut datagram = Vec::new();
            let transmit = connection.poll_transmit(Instant::now(), NonZeroUsize::MIN, &mut datagram).unwrap();
            socket.send_to(&datagram[..transmit.size], to).unwrap();
            if at % 10 == 0 {
                // The gateway's socket holds no more at a time.
                thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let began = Instant::now();
    let terminal = path.terminal();
    terminal.await_line(&["tunnel up"]);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let kilobytes = gateway.resident_kb();
    assert!(kilobytes < 150_000, "{kilobytes} kB");
    gateway.await_line(&["a handshake was not completed in time"]);
    terminal.stop();
    gateway.stop();
}

#[test]
fn a_box_with_an_unknown_certificate_is_refused() {
    let Some(path) = Path::new() else { return };
    // Before the first of the pauses, however late its line is read.
    let began = Instant::now();
    let (gateway, stranger) = (path.gateway(), path.terminal_as("stranger"));
    // The gateway writes nothing of what a stranger is. The stranger knows its gateway, and repeats its reason.
    gateway.await_line(&["tunnel refused peer=10.2.0.1:"]);
    stranger.await_line(&["tunnel down reason=", "certificate"]);
    // Its pauses double: after 1, 2 and 4 s, and no tunnel was ever up.
    let is_down = |line: &&String| line.starts_with("tunnel down");
    while stranger.log().iter().filter(is_down).count() < 4 {
        assert!(began.elapsed() < PATIENCE, "{:#?}", stranger.log());
        thread::sleep(Duration::from_millis(10));
    }
    assert!(began.elapsed() >= Duration::from_secs(6), "{:?}", began.elapsed());
    for log in [gateway.log(), stranger.log()] {
        assert!(!log.iter().any(|line| line.starts_with("tunnel up")), "{log:#?}");
    }
    stranger.stop();
    gateway.stop();
}
