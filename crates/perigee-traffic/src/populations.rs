//! Populations: flows of many connections, which users open. The list of kinds, their common properties, and their visits.

mod carried;
mod exchange;
mod fractional;
mod ledger;
mod packmime;
mod pages;
mod quantiles;
mod source;
mod transactions;
mod visits;
mod web;

use std::fmt::{self, Display, Formatter};

use perigee_results::Classes;
use perigee_units::{encode_enum, encode_struct, Stream, Time};

pub use carried::{Carried, Delivered, SenderTotals};
pub use ledger::{Ledger, OpenTransaction};
pub use pages::{Http, Page, PageKind, Pages};
use source::Source;
pub use source::Visit;
pub use transactions::Transactions;
use visits::Arrivals;
pub use visits::Visits;
pub use web::Web;

/// Connections from `to` to `from`: short ones with one request and one response each (HTTP 1.0), or those of a browser.
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    /// The visitors and their requests.
    pub source: Visitors,
    /// Time in which connections are opened; those open at its end remain unfinished.
    pub duration: Time,
    /// Connections opened within this time after the start are not counted in the table `responses`.
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
    /// Page loads of one browser.
    Pages(Pages),
}

/// A range of one-way delays, in levels at the middle of equal parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The shortest delay.
    pub least: Time,
    /// The longest delay.
    pub most: Time,
}

impl Population {
    fn source(&self) -> &dyn Source {
        match &self.source {
            Visitors::Transactions(transactions) => transactions,
            Visitors::Web(web) => web,
            Visitors::Pages(pages) => pages,
        }
    }

    /// The name of its kind in studies and results.
    pub fn name(&self) -> &'static str {
        self.source().name()
    }

    /// Mean number of connections.
    pub fn expected(&self) -> f64 {
        self.source().per_second() * self.duration.as_secs_f64()
    }

    /// The size classes of its responses.
    pub fn classes(&self) -> Classes {
        self.source().classes()
    }

    /// Whether all of its transactions are rows of results, instead of a sample.
    pub fn writes_all(&self) -> bool {
        matches!(self.source, Visitors::Transactions(_) | Visitors::Pages(_))
    }

    /// Whether users have access delays beyond the node `to`.
    pub fn has_access_delays(&self) -> bool {
        self.access.most > Time::ZERO
    }

    /// The visits of a flow that starts at `start`; equal streams make equal visits.
    fn visits(&self, start: Time, mut random: Stream) -> Visits {
        let end = start + self.duration;
        Visits::new(match &self.source {
            Visitors::Pages(pages) => pages.open([start, end], start + self.warmup, random),
            Visitors::Transactions(_) | Visitors::Web(_) => {
                let access = Stream::new(random.next_u64(), "access");
                Box::new(Arrivals::new(self.source().visitors(random), (self.access.levels(), access), [start, end]))
            }
        })
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
    /// Number of different delays.
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

encode_struct!(Population { source, duration, warmup, access });
encode_enum!(Visitors { Transactions(transactions), Web(web), Pages(pages) });
encode_struct!(Access { least, most });

/// Number of different access delays of a population.
const LEVELS: u32 = 16;
