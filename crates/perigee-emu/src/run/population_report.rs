//! Reports of the sockets of a population to its observer.

use perigee_traffic::Visit;
use perigee_units::Time;
use perigee_wire::Tcp as Segment;

/// A report; reports of one connection arrive in order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PopulationReport {
    /// A connection is about to be opened.
    Opened { at: Time, place: u32, visit: Visit },
    /// A segment at the users' side of their access.
    Segment { at: Time, segment: UserSegment },
    /// Retransmission timeouts of a connection's sender, before [`PopulationReport::Ended`] or [`PopulationReport::Over`].
    Timeouts { place: u32, timeouts: u32 },
    /// A connection is closed at both ends, or has failed.
    Ended { place: u32, has_failed: bool },
    /// The population has ended.
    Over,
}

/// A segment of a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserSegment {
    /// The place of its connection.
    pub(crate) place: u32,
    /// Whether the user receives it instead of sending it.
    pub(crate) is_arriving: bool,
    pub(crate) segment: Segment,
}
