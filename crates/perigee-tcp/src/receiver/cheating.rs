//! Behaviour of a receiver that cheats ([`super::cheat`]).

use perigee_settings::Receiving;
use perigee_units::Time;

use super::Receiver;

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
