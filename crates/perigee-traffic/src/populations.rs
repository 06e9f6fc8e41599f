//! Populations: users who each open a connection, ask once, read the answer and leave. The list of kinds, what each states about
//! itself, and who comes when.

mod exchange;
mod fractional;
mod packmime;
mod quantiles;
mod source;
mod transactions;
mod web;

use std::fmt::{self, Display, Formatter};

use perigee_results::Classes;
use perigee_units::{encode_enum, encode_struct, Stream, Time};

pub(crate) use exchange::Exchange;
pub use source::Visit;
use source::{Source, Visitor};
pub use transactions::Transactions;
pub use web::Web;

/// Short connections from `to` to `from`, each with one request and one response (HTTP 1.0).
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    /// Who comes when, and what they ask for.
    pub source: Visitors,
    /// New connections are opened for so long; those that are open then end unfinished.
    pub duration: Time,
    /// Connections that are opened in so long a time from the beginning are not counted in the table `responses`.
    pub warmup: Time,
    /// One-way delay between a user and the node `to`: drawn for each connection, uniform over this range.
    pub access: Access,
}

/// The kinds of populations.
#[derive(Clone, Debug, PartialEq)]
pub enum Visitors {
    /// Transactions at an interval, with responses of some sizes in turn.
    Transactions(Transactions),
    /// Users of the web.
    Web(Web),
}

/// A range of one-way delays, in so many levels at the middle of equal parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The shortest.
    pub least: Time,
    /// The longest.
    pub most: Time,
}

impl Population {
    fn source(&self) -> &dyn Source {
        match &self.source {
            Visitors::Transactions(transactions) => transactions,
            Visitors::Web(web) => web,
        }
    }

    /// The name of its kind in studies and results.
    pub fn name(&self) -> &'static str {
        self.source().name()
    }

    /// How many connections it opens in the mean.
    pub fn expected(&self) -> f64 {
        self.source().per_second() * self.duration.as_secs_f64()
    }

    /// The size classes of its responses.
    pub fn classes(&self) -> Classes {
        self.source().classes()
    }

    /// Whether each of its transactions is a row of results; otherwise a sample of them is.
    pub fn writes_all(&self) -> bool {
        matches!(self.source, Visitors::Transactions(_))
    }

    /// Whether some users are farther away than the node `to`.
    pub fn has_access_delays(&self) -> bool {
        self.access.most > Time::ZERO
    }

    /// Who comes when, of a population whose flow begins at `start`; equal streams make equal visits.
    pub fn visits(&self, start: Time, mut random: Stream) -> Visits {
        let access = Stream::new(random.next_u64(), "access");
        let visitors = self.source().visitors(random);
        Visits { visitors, levels: self.access.levels(), access, at: start, end: start + self.duration, number: 0 }
    }
}

impl Display for Population {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.source(), self.duration)?;
        if self.has_access_delays() {
            write!(f, ", access delay {} to {}", self.access.least, self.access.most)?;
        }
        Ok(())
    }
}

impl Access {
    /// How many different delays there are.
    pub fn levels(self) -> u32 {
        if self.least == self.most {
            1
        } else {
            LEVELS
        }
    }

    /// The delay of a level: the middle of its part of the range.
    pub fn delay(self, level: u32) -> Time {
        let range = (self.most - self.least).as_nanos();
        let parts = u64::from(2 * self.levels());
        self.least + Time::from_nanos(range / parts * u64::from(2 * level + 1))
    }
}

/// The visits of a population, in the order in which connections are opened.
pub struct Visits {
    visitors: Box<dyn Iterator<Item = Visitor> + Send>,
    levels: u32,
    access: Stream,
    at: Time,
    end: Time,
    number: u32,
}

impl Iterator for Visits {
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

encode_struct!(Population { source, duration, warmup, access });
encode_enum!(Visitors { Transactions(transactions), Web(web) });
encode_struct!(Access { least, most });

/// Different access delays of a population.
const LEVELS: u32 = 16;
