//! Receivers that cheat their senders for a larger share.
//!
//! S. Savage, N. Cardwell, D. Wetherall, T. Anderson: "TCP congestion control with a misbehaving receiver", ACM CCR
//! 29(5), 1999; for optimistic ACKs also R. Sherwood, B. Bhattacharjee, R. Braud: "Misbehaving TCP receivers can cause
//! Internet-wide congestion collapse", CCS 2005.
//!
//! Differences from the papers:
//! - there is no spoofing of duplicate ACKs (section 2.2): a sender with SACK counts no duplicates without SACK blocks
//! - an optimistic receiver sends a false ACK beside each that its receiver owes, half of the latest round trip's arrivals ahead of them; a
//!   sender ignores the false ones that acknowledge what it has not sent, so the connection goes on either way

use std::ops::Range;

use perigee_settings::Receiving;
use perigee_units::Time;

/// The state of a receiver that cheats. Positions are bytes since the initial receive sequence number.
#[derive(Clone, Debug)]
pub(super) struct Cheat {
    pub(super) how: Receiving,
    /// The bytes yet to be acknowledged falsely, in steps.
    pub(super) claims: Range<u64>,
    pub(super) step: u64,
    pub(super) round: Round,
}

/// The arrivals of a round trip.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    begun: Time,
    first: u64,
    /// Arrivals of the latest whole round trip.
    pub(super) bytes: u64,
}

impl Cheat {
    pub(super) fn new(how: Receiving) -> Option<Self> {
        (how != Receiving::Honest).then(|| Self { how, claims: 0..0, step: 1, round: Round::default() })
    }
}

impl Cheat {
    /// Acknowledges `from..to` in pieces, but for the last one, of which the receiver sends an ACK itself.
    pub(super) fn split(&mut self, from: u64, to: u64) {
        self.step = ((to - from) / PIECES).max(1);
        self.claims = from..to.saturating_sub(self.step).max(from);
    }
}

impl Round {
    pub(super) fn take(&mut self, now: Time, next: u64, rtt: Time) {
        if now - self.begun >= rtt {
            *self = Self { begun: now, first: next, bytes: next - self.first };
        }
    }
}

/// ACKs per segment.
const PIECES: u64 = 10;
