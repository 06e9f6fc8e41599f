//! The applications over TCP: the list of kinds, and their common properties.

mod adaptation;
mod application;
mod bulk;
mod offered;
mod playback;
mod requests;
mod video;

use std::fmt::{self, Display, Formatter};

use perigee_results::Amount;
use perigee_units::encode_enum;

pub use adaptation::Adaptation;
pub(crate) use application::Application;
pub use bulk::Bulk;
pub use offered::Offered;
pub use requests::Requests;
pub use video::Video;

/// An application over a TCP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum App {
    /// `from` sends as fast as possible, or what its application offers.
    Bulk(Bulk),
    /// `to` asks, `from` answers, in turn.
    Requests(Requests),
    /// `to` watches a video of `from`, segment by segment.
    Video(Video),
}

impl App {
    pub(crate) fn application(&self) -> &dyn Application {
        match self {
            Self::Bulk(bulk) => bulk,
            Self::Requests(requests) => requests,
            Self::Video(video) => video,
        }
    }

    /// The name of its kind in studies and results.
    pub fn name(&self) -> &'static str {
        self.application().name()
    }

    /// Payload bytes that `to` receives until the flow is complete, or the duration of the flow.
    pub fn amount(&self) -> Amount {
        self.application().amount()
    }

    /// The number of exchanges; zero for kinds without exchanges.
    pub fn exchanges(&self) -> u64 {
        self.application().exchanges()
    }

    /// Maximum payload bytes of both directions together; `None` if only the network limits them.
    pub fn bytes_both_ways(&self) -> Option<u64> {
        self.application().bytes_both_ways()
    }

    /// The minimum duration over a path with this round trip and any rate, s.
    pub fn least_s(&self, round_trip_s: f64) -> f64 {
        self.application().least_s(round_trip_s)
    }
}

impl Display for App {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.application().fmt(f)
    }
}

encode_enum!(App { Bulk(bulk), Requests(requests), Video(video) });
