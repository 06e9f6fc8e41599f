//! The applications that run over TCP: the list of kinds, and what each kind states about itself.

mod application;
mod bulk;
mod requests;

use std::fmt::{self, Display, Formatter};

use perigee_results::Amount;
use perigee_units::encode_enum;

pub(crate) use application::Application;
pub use bulk::Bulk;
pub use requests::Requests;

/// What an application does over its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// `from` sends at once and all it can.
    Bulk(Bulk),
    /// `to` asks, `from` answers, in turn.
    Requests(Requests),
}

impl App {
    pub(crate) fn application(&self) -> &dyn Application {
        match self {
            Self::Bulk(bulk) => bulk,
            Self::Requests(requests) => requests,
        }
    }

    /// The name of its kind in studies and results.
    pub fn name(&self) -> &'static str {
        self.application().name()
    }

    /// Payload bytes that `to` receives until the flow is complete, or the time the flow takes.
    pub fn amount(&self) -> Amount {
        self.application().amount()
    }

    /// How many exchanges it has; zero where it has none by nature.
    pub fn exchanges(&self) -> u64 {
        self.application().exchanges()
    }

    /// Payload bytes in both directions together; `None` where the network decides how many.
    pub fn bytes_both_ways(&self) -> Option<u64> {
        self.application().bytes_both_ways()
    }

    /// The least time it takes over a path with this round trip and any rate, s.
    pub fn least_s(&self, round_trip_s: f64) -> f64 {
        self.application().least_s(round_trip_s)
    }
}

impl Display for App {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.application().fmt(f)
    }
}

encode_enum!(App { Bulk(bulk), Requests(requests) });
