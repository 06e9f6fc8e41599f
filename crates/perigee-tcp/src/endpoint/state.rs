//! Connection state of an endpoint, and its header prediction.

/// Connection state (RFC 9293, section 3.3.2, as far as this model needs it).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    Failed(Failure),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Prediction {
    /// Unknown: the endpoint changed since the last check.
    #[default]
    Forgotten,
    /// Nothing: all segments take the slow path.
    Nothing,
    /// ACKs of data in flight, each of which may release new data; the peer sends no data.
    Acknowledgements,
    /// Like `Acknowledgements`, but during a recovery or in another unusual state: each ACK is checked individually.
    Recovery,
    /// In-order data to acknowledge; this end sends no data.
    Data,
    /// Like `Data`, but behind a gap: data that continue the newest range.
    DataBehindGap,
}

/// Why a connection failed at one endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The peer answered the SYN with a reset.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer acknowledged nothing until the last retransmission timed out.
    TimedOut,
    /// The local application aborted it.
    Aborted,
}
