//! A packet as links see it: its size, flow and ECN field, and the reasons to drop it.

use perigee_units::encode_enum;

/// A packet as a link sees it; the driver stores its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// Size of the IP packet.
    pub bytes: u32,
    /// Its flow.
    pub flow: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// It has low priority, which a queue of two classes ([`Full::DropLow`](crate::Full::DropLow)) heeds.
    pub is_low: bool,
    /// The driver's identifier of the packet.
    pub token: T,
}

/// Explicit congestion notification (RFC 3168, RFC 9331): the field of the header, and whether a segment asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotCapable,
    /// Not ECN-capable, of a segment that asks for ECN: a SYN with ECE and CWR.
    AsksFor,
    /// ECN-capable, not marked: ECT(0).
    Capable,
    /// ECN-capable, not marked, from a sender with a scalable congestion control: ECT(1), the identifier of L4S (RFC 9331).
    L4s,
    /// Marked by a queue: CE.
    Marked,
}

impl Ecn {
    /// The field's two bits in the header (RFC 3168, section 5).
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable | Self::AsksFor => 0,
            Self::L4s => 1,
            Self::Capable => 2,
            Self::Marked => 3,
        }
    }

    /// Whether a queue may mark the packet.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotCapable | Self::AsksFor)
    }

    /// The field cleared to Not-ECT.
    pub(crate) const fn cleared(self) -> Self {
        match self {
            Self::AsksFor => Self::AsksFor,
            _ => Self::NotCapable,
        }
    }
}

encode_enum!(Ecn { NotCapable, AsksFor, Capable, L4s, Marked });

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue was full.
    QueueFull,
    /// Dropped by active queue management.
    Aqm,
    /// Lost behind the server, or dropped for its ECN field.
    Loss,
}

impl DropReason {
    /// All reasons, in the order of [`crate::Counters::dropped`].
    pub const ALL: [Self; 3] = [Self::QueueFull, Self::Aqm, Self::Loss];

    /// Its name in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Aqm => "aqm",
            Self::Loss => "loss",
        }
    }
}
