//! The place of a capture on the path of a flow's data.

/// The place of a capture on the path of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Sender,
    Between,
    Receiver,
    /// The capture does not tell.
    Unknown,
}

impl Side {
    /// The place beside another capture, which is nearer to the sender than this one, or farther away.
    pub(crate) fn beside(self, is_nearer: bool) -> Self {
        match (self, is_nearer) {
            (Self::Receiver | Self::Unknown, true) => Self::Sender,
            (Self::Sender | Self::Unknown, false) => Self::Receiver,
            (own, _) => own,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Between => "between",
            Self::Receiver => "receiver",
            Self::Unknown => "unknown",
        }
    }
}
