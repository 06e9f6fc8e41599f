//! Transactions at a constant interval, with responses of given sizes in turn: a probe of the response times of web users.

use std::fmt::{self, Display, Formatter};

use perigee_results::Classes;
use perigee_units::{encode_struct, Bytes, Stream, Time};

use super::source::{Source, Visitor};

/// A request and a response on a connection of its own at each interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transactions {
    /// Time between the starts of two transactions.
    pub interval: Time,
    /// Size of a request.
    pub request: Bytes,
    /// Sizes of the responses, in turn.
    pub responses: Vec<Bytes>,
}

impl Transactions {
    /// The name of this kind in studies and results.
    pub const NAME: &'static str = "transactions";
}

impl Source for Transactions {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn per_second(&self) -> f64 {
        1.0 / self.interval.as_secs_f64().max(1e-9)
    }

    fn classes(&self) -> Classes {
        let mut sizes: Vec<u64> = self.responses.iter().map(|size| size.as_u64()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        Classes::Sizes(sizes)
    }

    fn visitors(&self, _random: Stream) -> Box<dyn Iterator<Item = Visitor> + Send> {
        let (gap_s, request) = (self.interval.as_secs_f64(), self.request.as_u64());
        let gaps = std::iter::once(0.0).chain(std::iter::repeat(gap_s));
        let responses = self.responses.clone().into_iter().cycle();
        Box::new(gaps.zip(responses).map(move |(gap_s, response)| Visitor {
            gap_s,
            request,
            response: response.as_u64(),
            service: Time::ZERO,
        }))
    }
}

impl Display for Transactions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let responses: Vec<_> = self.responses.iter().map(ToString::to_string).collect();
        write!(f, "{} asked each {}, {} answered in turn", self.request, self.interval, responses.join(", "))
    }
}

encode_struct!(Transactions { interval, request, responses });
