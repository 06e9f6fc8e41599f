//! Where a connection stands at one endpoint, and what the endpoint expects next.

/// Where the connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    Failed(Failure),
}

/// What an endpoint expects next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Prediction {
    /// It is not known: something has happened since it was found out.
    #[default]
    Forgotten,
    /// Nothing: segments are taken on the slow path.
    Nothing,
    /// Acknowledgements of data that are out, which let new ones leave; the peer sends none.
    Acknowledgements,
    /// The same, but a loss is repaired, or something else is unusual at the sender: acknowledgements are looked at one by one.
    Repairs,
    /// Data in order, which are acknowledged; nothing is sent here.
    Data,
    /// The same, but behind a gap: data that begin where the last ones end.
    FurtherData,
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
    /// The application here gave it up.
    Aborted,
}
