//! Puts back what other programs remove of the interception, as one that loads the firewall anew, and tells that it was off.

use perigee_units::Time;

use crate::config::{Config, Transparent};
use crate::host::intercept::{Interception, Missing};
use crate::shared::Shared;

/// The time of the next attempt, and the last lines of the log.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// At the earliest.
    next: Time,
    /// Time from that attempt to the one after it: longer each time, until as much was quiet.
    pause: Time,
    /// The last line, until a minute was quiet.
    said: String,
    /// When the log has said that it waits.
    off_since: Option<Time>,
    /// Numbers added to the metrics.
    counted: [usize; 3],
}

impl Repair {
    /// Puts back what is missing, if it is time to; true: it has tried.
    pub(super) fn follow(
        &mut self,
        interception: &mut Interception,
        (config, transparent): (&Config, &Transparent),
        shared: &Shared,
        now: Time,
    ) -> bool {
        let missing = interception.missing(config, now);
        for ((gauge, counted), count) in shared.stats.missing.iter().zip(&mut self.counted).zip(missing) {
            gauge.change(counted, count as usize);
        }
        let is_due = self.is_due(missing, now);
        if !is_due {
            self.tell(missing, shared, now);
            return false;
        }
        let said = match interception.update(config, transparent) {
            Ok(()) => {
                shared.stats.put_back.iter().zip(missing).for_each(|(counter, count)| counter.add(count));
                "interception put back reason=\"another program has removed rules of it\"".to_owned()
            }
            Err(error) => format!("interception: {error}"),
        };
        if self.said != said {
            self.said.clone_from(&said);
            shared.log.line(said);
        }
        true
    }

    /// Whether what is missing is put back now. Another program may remove it each time.
    fn is_due(&mut self, missing: Missing, now: Time) -> bool {
        if now < self.next {
            return false;
        }
        if missing == Missing::default() {
            self.pause = Time::ZERO;
            return false;
        }
        if now > self.next + QUIET {
            self.said.clear();
        }
        self.pause = (self.pause + self.pause).clamp(SHORTEST, LONGEST);
        self.next = now + self.pause;
        true
    }

    /// Says once that it is off, and once that it is whole again.
    fn tell(&mut self, missing: Missing, shared: &Shared, now: Time) {
        let is_whole = missing == Missing::default();
        match self.off_since {
            None if !is_whole => {
                let [tables, rules, routes] = missing;
                shared.log.line(format!(
                    "interception off tables={tables} policy_rules={rules} routes={routes} put_back_in_s={:.1} \
                     reason=\"it was removed again, or cannot be put back; the next try is later each time, at last every {LONGEST}\"",
                    (self.next - now).as_secs_f64()
                ));
                self.off_since = Some(now);
            }
            Some(since) if is_whole && now >= self.next => {
                shared.log.line(format!("interception whole after_s={:.1}", (now - since).as_secs_f64()));
                self.off_since = None;
            }
            _ => {}
        }
    }
}

/// Time between two attempts: the first, which doubles, and the longest.
const SHORTEST: Time = Time::from_secs(1);
const LONGEST: Time = Time::from_secs(10);
/// Quiet after which a line that was the last one is said again.
const QUIET: Time = Time::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_removes_it_each_time_waits_longer_and_another_one_does_not() {
        let (mut repair, gone) = (Repair::default(), [1, 0, 0]);
        let mut put_at = |missing: Missing, seconds: std::ops::Range<u64>| -> Vec<u64> {
            seconds.filter(|second| repair.is_due(missing, Time::from_secs(*second))).collect()
        };
        assert_eq!(put_at(gone, 100..150), [100, 101, 103, 107, 115, 125, 135, 145]);
        assert!(put_at(Missing::default(), 150..156).is_empty());
        // The pause passed, and it was whole.
        assert_eq!(put_at(gone, 156..160), [156, 157, 159]);
    }
}
