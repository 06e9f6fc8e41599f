//! A packet as links see it: its size, its flow, its ECN field, and why it may be dropped.

use perigee_units::encode_enum;

/// A packet as a link sees it; its content stays with the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// Size of the IP packet.
    pub bytes: u32,
    /// The flow it belongs to.
    pub flow: u32,
    /// What its sender and the links before this one say about congestion.
    pub ecn: Ecn,
    /// The driver's own name for it.
    pub token: T,
}

/// Explicit congestion notification (RFC 3168, RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The sender does not take part.
    #[default]
    NotCapable,
    /// The sender takes part, and no queue has marked the packet: ECT(0).
    Capable,
    /// The same, and the sender answers marks as a scalable congestion control does: ECT(1), the identifier of L4S (RFC 9331).
    L4s,
    /// A queue has marked the packet.
    Marked,
}

impl Ecn {
    /// The two bits of the field in the header (RFC 3168, section 5).
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0,
            Self::L4s => 1,
            Self::Capable => 2,
            Self::Marked => 3,
        }
    }
}

encode_enum!(Ecn { NotCapable, Capable, L4s, Marked });

/// Why a packet is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue had no room.
    QueueFull,
    /// The active queue management chose it.
    Aqm,
    /// It was lost in the air.
    Loss,
}

impl DropReason {
    /// Every reason, in the order of [`crate::Counters::dropped`].
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
