//! Visits of users, which open connections: known in advance, or those of a browser, which depend on arrivals.

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

    /// When the next connection is due to be opened; [`Time::MAX`] if none is known.
    pub fn next_at(&self) -> Time {
        self.0.next_at()
    }

    /// The next connection that is due now.
    pub fn open(&mut self, now: Time) -> Option<Visit> {
        self.0.open(now)
    }

    /// The script of a connection that is opened now.
    pub fn script(&self, visit: &Visit, now: Time) -> Script {
        Script::of_connection(self.0.conversation(visit), now)
    }

    /// Whether events of one connection affect the content of others, or when they are opened. If true, the driver calls
    /// [`Visits::woken`] and [`Visits::next_at`] after each event.
    pub fn reacts(&self) -> bool {
        self.0.reacts()
    }

    /// The number of a connection that has work at the user's end because of another one.
    pub fn woken(&mut self) -> Option<u32> {
        self.0.woken()
    }

    /// Handles a connection that is closed at both ends or has failed.
    pub fn ended(&mut self, now: Time, number: u32) {
        self.0.ended(now, number);
    }

    /// Returns these visits for an observer that only writes their results.
    pub fn share(&self) -> Option<Self> {
        self.0.share().map(Self)
    }

    /// Adds the rows specific to this kind of population.
    pub fn write(&self, id: FlowId<'_>, tables: &mut Tables) {
        self.0.write(id, tables);
    }
}

/// A source of connections.
pub(super) trait Opens: std::fmt::Debug + Send {
    /// See [`Visits::next_at`].
    fn next_at(&self) -> Time;

    /// See [`Visits::open`].
    fn open(&mut self, now: Time) -> Option<Visit>;

    /// The conversation of a connection.
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

    /// See [`Visits::share`]; `None` without anything to write.
    fn share(&self) -> Option<Box<dyn Opens>> {
        None
    }

    /// See [`Visits::write`].
    fn write(&self, _id: FlowId<'_>, _tables: &mut Tables) {}
}

/// Visits that do not depend on each other.
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
    /// Visitors from `start` to `end`, each with a random level of access delay.
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
