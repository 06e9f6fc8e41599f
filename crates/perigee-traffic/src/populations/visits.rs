//! Who opens connections when: visits that are known ahead, or those of a browser, which follow from what has arrived.

use perigee_results::{FlowId, Tables};
use perigee_units::{Stream, Time};

use super::exchange::Exchange;
use super::source::{Visit, Visitor};
use crate::conversation::Conversation;
use crate::script::Script;

/// The visits of a population, in the order in which connections are opened.
#[derive(Debug)]
pub struct Visits(Box<dyn Opens>);

impl Visits {
    pub(super) fn new(opens: Box<dyn Opens>) -> Self {
        Self(opens)
    }

    /// When the next connection is to be opened; [`Time::MAX`] where none is, as far as is known.
    pub fn next_at(&self) -> Time {
        self.0.next_at()
    }

    /// A connection that is to be opened by now.
    pub fn open(&mut self, now: Time) -> Option<Visit> {
        self.0.open(now)
    }

    /// What the two ends of a connection do, which is opened now.
    pub fn script(&self, visit: &Visit, now: Time) -> Script {
        Script::of_connection(self.0.conversation(visit), now)
    }

    /// Whether what happens on one connection has effects on others: on what they carry, and on what is opened when. The driver of a population of which this
    /// is true asks for [`Visits::woken`] and [`Visits::next_at`] after everything that happens.
    pub fn reacts(&self) -> bool {
        self.0.reacts()
    }

    /// The number of a connection with something to do at the user's end, because of what happened on another one.
    pub fn woken(&mut self) -> Option<u32> {
        self.0.woken()
    }

    /// A connection is closed at both ends, or has failed.
    pub fn ended(&mut self, now: Time, number: u32) {
        self.0.ended(now, number);
    }

    /// The same visits for somebody who only writes what came of them.
    pub fn share(&self) -> Option<Self> {
        self.0.share().map(Self)
    }

    /// Adds the rows that a population of this kind has beside those of its transactions.
    pub fn write(&self, id: FlowId<'_>, tables: &mut Tables) {
        self.0.write(id, tables);
    }
}

/// What opens connections.
pub(super) trait Opens: std::fmt::Debug + Send {
    /// See [`Visits::next_at`].
    fn next_at(&self) -> Time;

    /// See [`Visits::open`].
    fn open(&mut self, now: Time) -> Option<Visit>;

    /// What the two ends of a connection do.
    fn conversation(&self, visit: &Visit) -> Box<dyn Conversation> {
        Box::new(Exchange::new(*visit))
    }

    /// See [`Visits::reacts`].
    fn reacts(&self) -> bool {
        false
    }

    /// See [`Visits::woken`].
    fn woken(&mut self) -> Option<u32> {
        None
    }

    /// See [`Visits::ended`].
    fn ended(&mut self, _now: Time, _number: u32) {}

    /// See [`Visits::share`]; `None` where there is nothing to write.
    fn share(&self) -> Option<Box<dyn Opens>> {
        None
    }

    /// See [`Visits::write`].
    fn write(&self, _id: FlowId<'_>, _tables: &mut Tables) {}
}

/// Visits that do not depend on what becomes of others.
#[derive(Debug)]
pub(super) struct Arrivals {
    coming: Coming,
    next: Option<Visit>,
}

/// Visits until an instant.
struct Coming {
    visitors: Box<dyn Iterator<Item = Visitor> + Send>,
    levels: u32,
    access: Stream,
    at: Time,
    end: Time,
    number: u32,
}

impl Arrivals {
    /// These visitors from `start` to `end`, each with one of so many levels of access delay.
    pub(super) fn new(
        visitors: Box<dyn Iterator<Item = Visitor> + Send>,
        (levels, access): (u32, Stream),
        [start, end]: [Time; 2],
    ) -> Self {
        let mut coming = Coming { visitors, levels, access, at: start, end, number: 0 };
        let next = coming.next();
        Self { coming, next }
    }
}

impl Opens for Arrivals {
    fn next_at(&self) -> Time {
        self.next.map_or(Time::MAX, |visit| visit.at)
    }

    fn open(&mut self, now: Time) -> Option<Visit> {
        let due = self.next.take_if(|visit| visit.at <= now);
        if due.is_some() {
            self.next = self.coming.next();
        }
        due
    }
}

impl Iterator for Coming {
    type Item = Visit;

    fn next(&mut self) -> Option<Visit> {
        let visitor = self.visitors.next()?;
        self.at += Time::from_secs_f64(visitor.gap_s);
        let access = self.access.below(u64::from(self.levels)) as u32;
        let Visitor { request, response, service, .. } = visitor;
        let visit = Visit { number: self.number, at: self.at, request, response, service, access };
        self.number = self.number.wrapping_add(1);
        (self.at < self.end).then_some(visit)
    }
}

impl std::fmt::Debug for Coming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coming").field("number", &self.number).field("at", &self.at).finish_non_exhaustive()
    }
}
