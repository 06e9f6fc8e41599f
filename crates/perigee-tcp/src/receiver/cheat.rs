//! Receivers that cheat their senders for a larger share.
//!
//! S. Savage, N. Cardwell, D. Wetherall, T. Anderson: "TCP congestion control with a misbehaving receiver", ACM CCR 29(5), 1999; for optimistic
//! ACKs also R. Sherwood, B. Bhattacharjee, R. Braud: "Misbehaving TCP receivers can cause Internet-wide congestion collapse", CCS 2005.
//!
//! Differences from the papers:
//! - there is no spoofing of duplicate ACKs (section 2.2): a sender with SACK counts no duplicates without SACK blocks
//! - an optimistic receiver sends a false ACK beside each that its receiver owes, half of the latest round trip's arrivals ahead of them; a
//!   sender ignores the false ones that acknowledge what it has not sent, so the connection goes on either way

use std::ops::Range;

use perigee_settings::Receiving;
use perigee_units::Time;

use super::Receiver;

/// What a receiver that cheats knows. Positions are bytes since the initial receive sequence number.
#[derive(Clone, Debug)]
pub(super) struct Cheat {
    how: Receiving,
    /// What is yet to be acknowledged falsely, in steps.
    claims: Range<u64>,
    step: u64,
    round: Round,
}

/// The arrivals of a round trip.
#[derive(Clone, Debug, Default)]
struct Round {
    begun: Time,
    first: u64,
    /// Arrivals of the latest whole round trip.
    bytes: u64,
}

impl Cheat {
    pub(super) fn new(how: Receiving) -> Option<Self> {
        (how != Receiving::Honest).then(|| Self { how, claims: 0..0, step: 1, round: Round::default() })
    }
}

impl Receiver {
    /// Whether congestion marks are reported to the sender.
    pub(crate) fn heeds_marks(&self) -> bool {
        self.cheat.as_ref().is_none_or(|cheat| cheat.how != Receiving::IgnoreCe)
    }

    /// A receiver that cheats has just taken data; before them `before` was the next position expected.
    pub(crate) fn cheat(&mut self, now: Time, before: u64) {
        let Some(mut cheat) = self.cheat.take() else { return };
        match cheat.how {
            Receiving::AckSplitting => cheat.split(before, self.stream.next()),
            Receiving::HiddenLoss => self.hide_loss(),
            Receiving::OptimisticAck => {
                self.hide_loss();
                let (next, rtt_us) = (self.stream.next(), self.window.rtt_us());
                cheat.round.take(now, next, Time::from_micros(rtt_us));
                cheat.claims = next..next + cheat.round.bytes / 2;
                cheat.step = cheat.round.bytes / 2;
            }
            Receiving::Honest | Receiving::IgnoreCe => {}
        }
        if cheat.how != Receiving::IgnoreCe {
            // A cheat that waits gains less.
            self.acks.force();
        }
        self.cheat = Some(cheat);
    }

    /// The next position that is acknowledged falsely, once.
    pub(crate) fn claim(&mut self) -> Option<u64> {
        let cheat = self.cheat.as_mut().filter(|cheat| !cheat.claims.is_empty())?;
        cheat.claims.start = (cheat.claims.start + cheat.step).min(cheat.claims.end);
        Some(cheat.claims.start)
    }

    /// Counts everything before the newest data as received.
    fn hide_loss(&mut self) {
        let before = self.stream.next();
        let missing = self.stream.skip_gaps();
        let without_payload = missing + u64::from(before <= self.fin_at && self.fin_received());
        self.without_payload += without_payload;
        if self.on_demand {
            self.unread += self.stream.next() - before - without_payload;
        }
    }
}

impl Cheat {
    /// Acknowledges `from..to` in pieces, but for the last one, of which the receiver sends an ACK itself.
    fn split(&mut self, from: u64, to: u64) {
        self.step = ((to - from) / PIECES).max(1);
        self.claims = from..to.saturating_sub(self.step).max(from);
    }
}

impl Round {
    fn take(&mut self, now: Time, next: u64, rtt: Time) {
        if now - self.begun >= rtt {
            *self = Self { begun: now, first: next, bytes: next - self.first };
        }
    }
}

/// ACKs per segment.
const PIECES: u64 = 10;
