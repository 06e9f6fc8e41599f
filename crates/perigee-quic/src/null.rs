//! Keys that cost nothing, for equal bytes in every run: the shape of TLS 1.3 over QUIC (RFC 9001), three levels and one round trip,
//! with tags of zeros. Nothing is secret or authentic, so it serves inside the simulator only.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use noq_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair, Keys,
    PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError, TransportErrorCode};

/// A client's memory of a server (RFC 9001, section 4.5): its next connection to it may send early data.
#[derive(Clone, Debug)]
pub struct Ticket(pub(crate) TransportParameters);

/// The handshake of one end, as its configuration asks.
#[derive(Clone)]
pub(crate) struct Handshake {
    /// Size of the server's certificates and what proves them.
    pub(crate) certificate_bytes: usize,
    /// A client's ticket.
    pub(crate) ticket: Option<Ticket>,
    /// A server accepts early data.
    pub(crate) accepts_early_data: bool,
}

impl Handshake {
    fn session(&self, side: Side, ours: &TransportParameters) -> Box<dyn Session> {
        Box::new(NullSession {
            side,
            setup: self.clone(),
            ours: *ours,
            theirs: None,
            early_offered: self.ticket.is_some(),
            early_accepted: false,
            next: if side == Side::Client { Some(Message::ClientHello) } else { None },
            read: Vec::new(),
            is_done: false,
        })
    }
}

impl ClientConfig for Handshake {
    fn start_session(&self, _: u32, _: &str, params: &TransportParameters) -> Result<Box<dyn Session>, ConnectError> {
        Ok(self.session(Side::Client, params))
    }
}

impl ServerConfig for Handshake {
    fn initial_keys(&self, _: u32, _: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _: u32, _: ConnectionId, _: &[u8]) -> [u8; 16] {
        [0; TAG]
    }

    fn start_session(&self, _: u32, params: &TransportParameters) -> Box<dyn Session> {
        self.session(Side::Server, params)
    }
}

/// The key that does nothing, for every purpose.
pub(crate) struct NullKey;

impl NullKey {
    pub(crate) fn shared() -> Arc<Self> {
        Arc::new(Self)
    }
}

impl PacketKey for NullKey {
    fn encrypt(&self, _: PathId, _: u64, _: &mut [u8], _: usize) {}

    fn decrypt(&self, _: PathId, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let len = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        payload.truncate(len);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for NullKey {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG
    }
}

impl HmacKey for NullKey {
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        for (at, byte) in out.iter_mut().enumerate() {
            *byte = data.get(at).copied().unwrap_or(at as u8);
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }
}

impl HandshakeTokenKey for NullKey {
    fn seal(&self, _: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        data.extend_from_slice(&[0; TAG]);
        Ok(())
    }

    fn open<'a>(&self, _: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        let len = data.len().checked_sub(TAG).ok_or(CryptoError)?;
        Ok(&data[..len])
    }
}

/// One end of a handshake.
struct NullSession {
    side: Side,
    setup: Handshake,
    ours: TransportParameters,
    theirs: Option<TransportParameters>,
    early_offered: bool,
    early_accepted: bool,
    /// Written when the stack asks next.
    next: Option<Message>,
    /// Bytes that have arrived of the message after the last one read.
    read: Vec<u8>,
    is_done: bool,
}

/// The messages of the handshake, with those of TLS that they stand for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Message {
    ClientHello = 1,
    ServerHello = 2,
    /// From `EncryptedExtensions` to the server's Finished.
    ServerFinished = 3,
    /// The client has the server's hello: handshake keys follow, and no bytes.
    ClientKeys = 4,
    ClientFinished = 5,
}

impl NullSession {
    /// Writes a message as [`HEADER`] bytes, the transport parameters where it has them, and padding.
    fn write(&self, message: Message, buf: &mut Vec<u8>) {
        let mut body = Vec::new();
        if matches!(message, Message::ClientHello | Message::ServerFinished) {
            self.ours.write(&mut body);
        }
        let bytes = match message {
            Message::ClientHello => CLIENT_HELLO,
            Message::ServerHello => SERVER_HELLO,
            // A session that resumes an earlier one has no certificates (RFC 8446, section 2.2).
            Message::ServerFinished if self.early_offered => body.len() + HEADER + FINISHED,
            Message::ServerFinished => self.setup.certificate_bytes,
            Message::ClientKeys => return,
            Message::ClientFinished => FINISHED,
        };
        let padding = bytes.saturating_sub(body.len() + HEADER);
        let early = if self.side == Side::Client { self.early_offered } else { self.early_accepted };
        buf.extend_from_slice(&[message as u8, u8::from(early)]);
        buf.extend_from_slice(&(body.len() as u16).to_be_bytes());
        buf.extend_from_slice(&(padding as u16).to_be_bytes());
        buf.extend_from_slice(&body);
        buf.resize(buf.len() + padding, 0);
    }

    /// Takes one message off what has been read; returns whether one was complete.
    fn take_message(&mut self) -> Result<bool, TransportError> {
        let Some((header, rest)) = self.read.split_first_chunk::<HEADER>() else { return Ok(false) };
        let [kind, early, b0, b1, p0, p1] = *header;
        let (body, padding) = (usize::from(u16::from_be_bytes([b0, b1])), usize::from(u16::from_be_bytes([p0, p1])));
        if rest.len() < body + padding {
            return Ok(false);
        }
        if body > 0 {
            let read = TransportParameters::read(self.side, &mut &rest[..body]);
            self.theirs = Some(read.map_err(|_| unexpected())?);
        }
        self.read.drain(..HEADER + body + padding);
        let early = early != 0;
        match (self.side, kind) {
            (Side::Server, CLIENT_HELLO_KIND) => {
                self.early_offered = early;
                self.early_accepted = early && self.setup.accepts_early_data;
                self.next = Some(Message::ServerHello);
            }
            (Side::Client, SERVER_HELLO_KIND) => self.next = Some(Message::ClientKeys),
            (Side::Client, SERVER_FINISHED_KIND) => {
                self.early_accepted = early;
                self.next = Some(Message::ClientFinished);
            }
            (Side::Server, CLIENT_FINISHED_KIND) => self.is_done = true,
            _ => return Err(unexpected()),
        }
        Ok(true)
    }
}

impl Session for NullSession {
    fn initial_keys(&self, _: ConnectionId, _: Side) -> Keys {
        keys()
    }

    /// The [`Ticket`] of this connection.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.theirs.map(|theirs| Box::new(Ticket(theirs)) as Box<dyn Any>)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let has_keys = if self.side == Side::Client { self.early_offered } else { self.early_accepted };
        has_keys.then(|| (Box::new(NullKey) as Box<dyn HeaderKey>, Box::new(NullKey) as Box<dyn PacketKey>))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        (self.side == Side::Client).then_some(self.early_accepted)
    }

    fn is_handshaking(&self) -> bool {
        !self.is_done
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        let had_theirs = self.theirs.is_some();
        self.read.extend_from_slice(buf);
        while self.take_message()? {}
        Ok(!had_theirs && self.theirs.is_some())
    }

    /// Until the server's own have arrived, the parameters that a ticket remembers.
    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.theirs.or_else(|| self.setup.ticket.as_ref().map(|ticket| ticket.0)))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let message = self.next.take()?;
        self.write(message, buf);
        match message {
            Message::ClientHello => return None,
            Message::ServerHello => self.next = Some(Message::ServerFinished),
            Message::ClientFinished => self.is_done = true,
            Message::ServerFinished | Message::ClientKeys => {}
        }
        Some(keys())
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(KeyPair { local: Box::new(NullKey), remote: Box::new(NullKey) })
    }

    fn is_valid_retry(&self, _: ConnectionId, _: &[u8], _: &[u8]) -> bool {
        true
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn keys() -> Keys {
    Keys {
        header: KeyPair { local: Box::new(NullKey), remote: Box::new(NullKey) },
        packet: KeyPair { local: Box::new(NullKey), remote: Box::new(NullKey) },
    }
}

fn unexpected() -> TransportError {
    let reason = String::from("a handshake without keys has another message here");
    TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason)
}

/// Size of an authentication tag, and of a sample of header protection (RFC 9001, sections 5.3 and 5.4.2).
const TAG: usize = 16;
/// Kind, whether early data, and the lengths of transport parameters and padding.
const HEADER: usize = 6;
/// Sizes of messages as TLS 1.3 has them with one key share, bytes.
const CLIENT_HELLO: usize = 300;
const SERVER_HELLO: usize = 90;
const FINISHED: usize = 36;
const CLIENT_HELLO_KIND: u8 = Message::ClientHello as u8;
const SERVER_HELLO_KIND: u8 = Message::ServerHello as u8;
const SERVER_FINISHED_KIND: u8 = Message::ServerFinished as u8;
const CLIENT_FINISHED_KIND: u8 = Message::ClientFinished as u8;
