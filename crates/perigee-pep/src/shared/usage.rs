//! Who uses the service: the counts of each subscriber by each rule, in bounded memory and with bounded rows of metrics.
//!
//! A connection finds its counts once, at its start, under a lock; from then on they are atomics that it has to itself or shares with
//! connections of the same subscriber. Rows of metrics are those of the subscribers that move most, and `others`. A counter of theirs
//! may not fall when somebody enters or leaves: what was shown as somebody's own is never shown as others', nor the other way round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use perigee_units::Time;

use super::counts::{Counts, Totals};
use crate::config::Who;

/// The counts of all subscribers.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rules: BTreeMap<String, OfRule>,
    /// Rows of all rules.
    rows: usize,
    /// Addresses with metrics of their own, and how many may have them.
    named: BTreeSet<Who>,
    most_named: usize,
}

/// The counts of a rule.
#[derive(Debug, Default)]
struct OfRule {
    rows: BTreeMap<Who, Row>,
    /// Subscribers without a row, and those who had one.
    others: Row,
    /// Counts that metrics have shown as the own of those who had a row.
    gone: Totals,
}

/// A subscriber by a rule.
#[derive(Debug, Default)]
struct Row {
    counts: Arc<Counts>,
    /// Its counts when its metrics became its own.
    before: Totals,
    /// Counts that metrics have shown as its own at earlier times.
    shown: Totals,
    /// Counts that lines of accounting have told, and the time before this interval that has none since they were not written.
    told: Totals,
    untold: Time,
    /// Bytes at the last round, and those of late.
    seen: u64,
    recent: u64,
}

/// The use of a rule by a subscriber since that was last told.
#[derive(Debug)]
pub(crate) struct Use {
    who: Option<Who>,
    pub(crate) name: String,
    pub(crate) rule: String,
    pub(crate) used: Totals,
    /// Time before this interval whose lines were not written.
    pub(crate) earlier: Time,
}

impl Usage {
    /// The counts of a subscriber by a rule; they survive a new configuration that has a rule of the same name.
    pub(crate) fn of(&self, rule: &str, who: Who) -> Arc<Counts> {
        self.lock().of(rule, who)
    }

    /// Decides, from time to time, who has metrics of their own: at most `most`, of whom a quarter may change at once. One leaves for
    /// another that has moved more than twice as much of late, and so at once for any that moves if it has moved nothing. Forgets who
    /// has no connection and has moved nothing since the last time; with accounts, not before they have it.
    pub(crate) fn round(&self, most: usize, is_told: bool) {
        let mut state = self.lock();
        state.most_named = most;
        state.rank();
        state.forget(is_told);
    }

    /// The totals of each rule.
    pub(crate) fn rules(&self) -> Vec<(String, Totals)> {
        self.lock().rules.iter().map(|(name, rule)| (name.clone(), rule.totals())).collect()
    }

    /// Each subscriber with metrics of its own and all others, by rule.
    pub(crate) fn subscribers(&self) -> Vec<(String, String, Totals)> {
        let state = self.lock();
        let mut out = Vec::new();
        for (rule, of) in &state.rules {
            let mut others = of.others.counts.read();
            for (who, row) in &of.rows {
                let now = row.counts.read();
                if state.is_named(who) {
                    out.push((row.counts.who.to_string(), rule.clone(), now.since(&row.before)));
                    others = others.plus(&row.before.since(&row.shown).of_the_past());
                } else {
                    others = others.plus(&now.since(&row.shown));
                }
            }
            out.push((of.others.counts.who.to_string(), rule.clone(), others));
        }
        out
    }

    /// The use of each subscriber by each rule since it was last told; those with nothing new are left out.
    pub(crate) fn untold(&self) -> Vec<Use> {
        let mut out = Vec::new();
        for (rule, of) in &self.lock().rules {
            let rows = of.rows.iter().map(|(who, row)| (Some(who), row));
            for (who, row) in rows.chain([(None, &of.others)]) {
                let used = row.counts.read().since(&row.told);
                if used != row.told.now() {
                    let (who, name) = (who.cloned(), row.counts.who.to_string());
                    out.push(Use { who, name, rule: rule.clone(), used, earlier: row.untold });
                }
            }
        }
        out
    }

    /// Goes on after a line with this: what could not be written becomes part of the next one, `interval` later.
    pub(crate) fn told(&self, line: &Use, is_written: bool, interval: Time) {
        let mut state = self.lock();
        let Some(of) = state.rules.get_mut(&line.rule) else { return };
        let row = line.who.as_ref().map_or(Some(&mut of.others), |who| of.rows.get_mut(who));
        let Some(row) = row else { return };
        if is_written {
            (row.told, row.untold) = (row.told.of_the_past().plus(&line.used), Time::ZERO);
        } else {
            row.untold += interval;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of(&mut self, rule: &str, who: Who) -> Arc<Counts> {
        if let Some(row) = self.rules.get(rule).and_then(|of| of.rows.get(&who)) {
            return row.counts.clone();
        }
        if self.rows >= MOST {
            return self.rules.entry(rule.to_owned()).or_default().others.counts.clone();
        }
        self.rows += 1;
        if matches!(who, Who::Address(_)) && self.named.len() < self.most_named {
            // It may have rows of other rules, which begin here, too.
            self.name(&who);
        }
        let counts = Arc::new(Counts::of(&who.to_string()));
        let row = Row { counts: counts.clone(), ..Row::default() };
        self.rules.entry(rule.to_owned()).or_default().rows.insert(who, row);
        counts
    }

    fn is_named(&self, who: &Who) -> bool {
        matches!(who, Who::Table(_)) || self.named.contains(who)
    }

    /// Gives an address metrics of its own.
    fn name(&mut self, who: &Who) {
        if self.named.insert(who.clone()) {
            for row in self.rules.values_mut().filter_map(|of| of.rows.get_mut(who)) {
                row.before = row.counts.read().of_the_past();
            }
        }
    }

    /// Takes them from it.
    fn unname(&mut self, who: &Who) {
        if self.named.remove(who) {
            for row in self.rules.values_mut().filter_map(|of| of.rows.get_mut(who)) {
                let own = row.counts.read().since(&row.before).of_the_past();
                row.shown = row.shown.plus(&own);
            }
        }
    }

    fn rank(&mut self) {
        let mut recent: BTreeMap<Who, u64> = BTreeMap::new();
        for (who, row) in self.rules.values_mut().flat_map(|of| &mut of.rows) {
            let bytes = row.counts.read().bytes();
            row.recent = row.recent / 2 + (bytes - row.seen);
            row.seen = bytes;
            if matches!(who, Who::Address(_)) {
                *recent.entry(who.clone()).or_default() += row.recent;
            }
        }
        let mut ranked: Vec<(Who, u64)> = recent.into_iter().collect();
        ranked.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let (named, new): (Vec<_>, Vec<_>) = ranked.into_iter().partition(|(who, _)| self.named.contains(who));
        let (stay, beyond) = named.split_at(self.most_named.min(named.len()));
        for (who, _) in beyond {
            self.unname(who);
        }
        // Who leaves is not among the first: each pair has one more that moves more.
        let pairs = stay.iter().rev().zip(&new).take(self.most_named.div_ceil(4));
        for ((last, _), _) in pairs.filter(|((_, little), (_, much))| *much > 2 * little) {
            self.unname(last);
        }
        let missing = self.most_named.saturating_sub(self.named.len());
        new.iter().take(missing).for_each(|(who, _)| self.name(who));
    }

    fn forget(&mut self, is_told: bool) {
        for of in self.rules.values_mut() {
            let (others, gone) = (&mut of.others, &mut of.gone);
            let before = of.rows.len();
            of.rows.retain(|who, row| {
                let now = row.counts.read();
                // Nobody else can take its counts: that needs the lock.
                let is_used = Arc::strong_count(&row.counts) > 1 || row.recent > 0;
                if is_used || matches!(who, Who::Table(_)) || (is_told && now != row.told) {
                    return true;
                }
                let own = if self.named.contains(who) { now.since(&row.before) } else { Totals::default() };
                let shown = row.shown.plus(&own);
                *gone = gone.plus(&shown);
                others.counts.add_all(&now.since(&shown));
                others.told = others.told.plus(&now.since(&shown));
                false
            });
            self.rows -= before - of.rows.len();
        }
        let has_row = |who: &Who| self.rules.values().any(|of| of.rows.contains_key(who));
        let named: BTreeSet<Who> = self.named.iter().filter(|who| has_row(who)).cloned().collect();
        self.named = named;
    }
}

impl OfRule {
    fn totals(&self) -> Totals {
        let rows = self.rows.values().map(|row| row.counts.read());
        rows.fold(self.others.counts.read().plus(&self.gone), |sum, row| sum.plus(&row))
    }
}

/// Rows that are remembered; later subscribers are counted among the others until one is forgotten.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::relay::Side;
    use crate::shared::counts::Count;

    const BYTES: Count = Count::Bytes(Side::Client);

    fn who(last: u32) -> Who {
        Who::Address(Ipv4Addr::from_bits(0x0a00_0000 + last).into())
    }

    fn usage(most: usize) -> Usage {
        let usage = Usage::default();
        usage.round(most, false);
        usage
    }

    /// Name and bytes of each row of metrics.
    fn shown(usage: &Usage) -> Vec<(String, u64)> {
        usage.subscribers().into_iter().map(|(who, _, totals)| (who, totals.get(BYTES))).collect()
    }

    /// Tells all that is new.
    fn tell(usage: &Usage) -> Vec<(String, u64)> {
        let lines = usage.untold();
        for line in &lines {
            usage.told(line, true, Time::ZERO);
        }
        lines.into_iter().map(|line| (line.name, line.used.get(BYTES))).collect()
    }

    fn row(name: &str, bytes: u64) -> (String, u64) {
        (name.to_owned(), bytes)
    }

    #[test]
    fn who_enters_the_rows_of_metrics_begins_there_and_leaves_no_counter_smaller() {
        let usage = usage(1);
        let [first, second] = [1, 2].map(|last| usage.of("web", who(last)));
        first.add(BYTES, 100);
        second.add(BYTES, 1000);
        assert_eq!(shown(&usage), [row("10.0.0.1", 100), row("others", 1000)]);
        // The second one moves more, but not more than twice as much.
        first.add(BYTES, 400);
        usage.round(1, false);
        assert_eq!(shown(&usage), [row("10.0.0.1", 500), row("others", 1000)]);
        let third = usage.of("web", who(3));
        third.add(BYTES, 500);
        second.add(BYTES, 1000);
        usage.round(1, false);
        assert_eq!(shown(&usage), [row("10.0.0.2", 0), row("others", 2500)]);
        second.add(BYTES, 7);
        first.add(BYTES, 1);
        assert_eq!(shown(&usage), [row("10.0.0.2", 7), row("others", 2501)]);
        // Back again: its own begins anew, which a reader of counters sees.
        first.add(BYTES, 1_000_000);
        for _ in 0..4 {
            third.add(BYTES, 100_000);
            usage.round(1, false);
        }
        assert_eq!(shown(&usage), [row("10.0.0.1", 0), row("others", 1_402_501)]);
        assert_eq!(usage.rules()[0].1.get(BYTES), 500 + 2007 + 400_500 + 1_000_001);
    }

    #[test]
    fn who_moves_most_takes_the_row_of_an_idle_one_at_once_and_a_few_change_in_a_round() {
        let usage = usage(20);
        let idle: Vec<_> = (0..20).map(|last| usage.of("web", who(last))).collect();
        for counts in &idle {
            counts.add(BYTES, 4);
        }
        usage.round(20, false);
        let heavy = usage.of("web", who(100));
        heavy.add(BYTES, 10_000_000);
        usage.round(20, false);
        heavy.add(BYTES, 7);
        assert!(shown(&usage).contains(&row("10.0.0.100", 7)));
        let more: Vec<_> = (200..240).map(|last| usage.of("web", who(last))).collect();
        for counts in &more {
            counts.add(BYTES, 1000);
        }
        usage.round(20, false);
        let is_new = |(who, _): &&(String, u64)| who.len() == "10.0.0.200".len() && who != "10.0.0.100";
        assert_eq!(shown(&usage).iter().filter(is_new).count(), 5);
        (0..9).for_each(|_| usage.round(20, false));
        assert_eq!((shown(&usage).len(), shown(&usage).iter().filter(is_new).count()), (21, 19));
    }

    #[test]
    fn who_is_gone_is_forgotten_with_all_sums_as_they_were() {
        let usage = usage(1);
        for last in 0..3 {
            usage.of("web", who(last)).add(BYTES, 10);
        }
        let open = usage.of("web", who(3));
        open.add(Count::Open, 1);
        let before = (usage.rules(), shown(&usage));
        tell(&usage);
        // Bytes of late fade.
        (0..10).for_each(|_| usage.round(1, true));
        assert_eq!(usage.lock().rows, 1);
        assert_eq!(usage.rules(), before.0);
        // Somebody's own is not others' afterwards.
        assert_eq!(
            (before.1, shown(&usage)),
            (vec![row("10.0.0.0", 10), row("others", 20)], vec![row("10.0.0.3", 0), row("others", 20)])
        );
        assert!(tell(&usage).is_empty(), "a connection is open still, and nothing is new");
        usage.of("web", who(1)).add(BYTES, 5);
        assert_eq!(tell(&usage), [row("10.0.0.1", 5)]);
        open.subtract(Count::Open, 1);
        assert_eq!(tell(&usage), [row("10.0.0.3", 0)]);
    }

    #[test]
    fn what_could_not_be_written_is_part_of_the_next_line_with_its_time() {
        let usage = usage(1);
        let counts = usage.of("web", who(1));
        counts.add(BYTES, 100);
        usage.told(&usage.untold()[0], false, Time::from_secs(60));
        counts.add(BYTES, 20);
        let lines = usage.untold();
        assert_eq!((lines[0].used.get(BYTES), lines[0].earlier), (120, Time::from_secs(60)));
        counts.add(BYTES, 3);
        usage.told(&lines[0], true, Time::from_secs(60));
        let lines = usage.untold();
        assert_eq!((lines[0].used.get(BYTES), lines[0].earlier), (3, Time::ZERO));
    }

    #[test]
    fn what_is_not_told_yet_is_not_forgotten_and_later_subscribers_are_others() {
        let usage = usage(0);
        for last in 0..=MOST as u32 {
            usage.of("web", who(last)).add(BYTES, 1);
        }
        assert_eq!(usage.lock().rows, MOST);
        assert_eq!(shown(&usage), [row("others", MOST as u64 + 1)]);
        (0..4).for_each(|_| usage.round(0, true));
        assert_eq!(tell(&usage).iter().map(|(_, bytes)| bytes).sum::<u64>(), MOST as u64 + 1);
        (0..4).for_each(|_| usage.round(0, true));
        assert_eq!(usage.lock().rows, 0);
        assert!(tell(&usage).is_empty());
        assert_eq!(shown(&usage), [row("others", MOST as u64 + 1)]);
    }
}
