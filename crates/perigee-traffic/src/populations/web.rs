//! Users of the web: the connection-based model of Cao, Cleveland, Gao, Jeffay, Smith and Weigle.

use std::fmt::{self, Display, Formatter};

use perigee_results::Classes;
use perigee_units::{encode_struct, Stream};

use super::packmime::{Arrivals, Requests, Responses, ServerDelays};
use super::source::{Source, Visitor};

/// Random new connections, with random sizes and server delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Web {
    /// Mean number of new connections per second.
    pub connections_per_s: f64,
}

impl Web {
    /// The name of this kind in studies and results.
    pub const NAME: &'static str = "web";
}

impl Source for Web {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn per_second(&self) -> f64 {
        self.connections_per_s
    }

    fn classes(&self) -> Classes {
        Classes::Octaves
    }

    fn visitors(&self, mut random: Stream) -> Box<dyn Iterator<Item = Visitor> + Send> {
        let rate = self.per_second();
        let mut stream = |name: &str| Stream::new(random.next_u64(), name);
        let arrivals = Arrivals::new(rate, stream("arrivals"));
        let requests = Requests::new(rate, stream("requests"));
        let responses = Responses::new(rate, stream("responses"));
        let delays = ServerDelays::new(stream("delays"));
        let sizes = requests.zip(responses);
        Box::new(arrivals.zip(sizes).zip(delays).map(|((gap_s, (request, response)), service)| Visitor {
            gap_s,
            request,
            response,
            service,
        }))
    }
}

impl Display for Web {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} new connections per second", self.per_second())
    }
}

encode_struct!(Web { connections_per_s });
