//! Events that an endpoint reports to its host.

use noq_proto::{ConnectionError, EcnCodepoint};

/// A stream of a connection (RFC 9000, section 2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub(crate) noq_proto::StreamId);

impl StreamId {
    /// The stream identifier on the wire.
    pub fn number(self) -> u64 {
        self.0.into()
    }
}

/// The ECN field of the IP header (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    pub(crate) fn from_stack(codepoint: Option<EcnCodepoint>) -> Self {
        match codepoint {
            None => Self::NotEct,
            Some(EcnCodepoint::Ect0) => Self::Ect0,
            Some(EcnCodepoint::Ect1) => Self::Ect1,
            Some(EcnCodepoint::Ce) => Self::Ce,
        }
    }

    pub(crate) fn to_stack(self) -> Option<EcnCodepoint> {
        match self {
            Self::NotEct => None,
            Self::Ect0 => Some(EcnCodepoint::Ect0),
            Self::Ect1 => Some(EcnCodepoint::Ect1),
            Self::Ce => Some(EcnCodepoint::Ce),
        }
    }
}

/// An event of an endpoint: see [`crate::Endpoint::poll_event`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// The server has refused the early data, which are lost: streams that were opened before are gone.
    EarlyDataRefused,
    /// The peer has opened a stream.
    Opened(StreamId),
    /// Data of a stream have arrived in order and are read; [`crate::Endpoint::received`] says how many.
    Received(StreamId),
    /// The peer has finished the stream, and all of it has been read.
    Finished(StreamId),
    /// The peer has acknowledged all of a stream that this end has finished.
    Acknowledged(StreamId),
    /// The peer has abandoned the stream.
    Reset(StreamId),
    /// The peer allows more streams: [`crate::Endpoint::open_stream`] succeeds again.
    MoreStreams,
    /// The connection has ended other than by [`crate::Endpoint::close`] of this end.
    Closed(Closed),
}

/// Why a connection ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closed {
    /// This end closed it.
    Here,
    /// The peer closed it, with this code of the application.
    ByPeer(u64),
    /// Nothing arrived for the idle timeout (RFC 9000, section 10.1); during the handshake: no answer.
    TimedOut,
    /// The peer has no version that this end accepts.
    VersionMismatch,
    /// The peer has no such connection (RFC 9000, section 10.3).
    Reset,
    /// One end has seen a violation of the protocol or of a limit, in the words of the stack.
    Error(String),
}

impl Closed {
    pub(crate) fn from_stack(error: &ConnectionError) -> Self {
        match error {
            ConnectionError::VersionMismatch => Self::VersionMismatch,
            ConnectionError::ApplicationClosed(close) => Self::ByPeer(close.error_code.into_inner()),
            ConnectionError::Reset => Self::Reset,
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::LocallyClosed => Self::Here,
            other => Self::Error(other.to_string()),
        }
    }
}
