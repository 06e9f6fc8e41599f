//! Requests and responses in turn over one persistent connection.

use std::fmt::{self, Display, Formatter};

use perigee_results::Amount;
use perigee_units::{encode_struct, Bytes, Stream, Time};

use super::application::Application;
use crate::conversation::{Action, Closing, Conversation, End, Facts, Goal};
use crate::exchanges::Exchanges;

/// `to` asks, `from` answers; the next request follows the response after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Size of a request.
    pub request: Bytes,
    /// Size of a response.
    pub response: Bytes,
    /// From the end of a response to the next request.
    pub think: Time,
    /// Number of requests.
    pub count: u32,
}

impl Requests {
    /// The name of this kind in studies and results.
    pub const NAME: &'static str = "request";
}

impl Application for Requests {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn amount(&self) -> Amount {
        Amount::Size(Bytes::new(total(self.response, self.count)))
    }

    fn goal(&self, _start: Time) -> Goal {
        Goal::Exchanges(self.count)
    }

    fn exchanges(&self) -> u64 {
        u64::from(self.count)
    }

    fn bytes_both_ways(&self) -> Option<u64> {
        Some((self.request.as_u64() + self.response.as_u64()).saturating_mul(u64::from(self.count)))
    }

    fn least_s(&self, round_trip_s: f64) -> f64 {
        // The handshake, and a round trip for each exchange.
        let pauses = self.think.as_secs_f64() * f64::from(self.count.saturating_sub(1));
        pauses + round_trip_s * (f64::from(self.count) + 1.0)
    }

    fn conversation(&self, start: Time, _random: Stream) -> Box<dyn Conversation> {
        Box::new(Dialogue {
            requests: *self,
            client: Client::Thinking { until: start },
            answered: 0,
            server: Closing::default(),
        })
    }
}

impl Display for Requests {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { request, response, think, count } = self;
        write!(f, "{count} times {request} asked, {response} answered, {think} between")
    }
}

/// The two ends of a dialogue.
#[derive(Debug)]
struct Dialogue {
    requests: Requests,
    client: Client,
    /// Responses that the server has written.
    answered: u32,
    server: Closing,
}

/// State of the client at `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Thinking { until: Time },
    Reading,
    Closed,
}

impl Conversation for Dialogue {
    fn next(&mut self, end: End, facts: Facts, exchanges: &mut Exchanges) -> Action {
        match end {
            End::To => self.ask(facts, exchanges),
            End::From => self.answer(facts),
        }
    }
}

impl Dialogue {
    fn ask(&mut self, facts: Facts, exchanges: &mut Exchanges) -> Action {
        let Requests { request, response, think, count } = self.requests;
        let asked = exchanges.announced();
        if self.client == Client::Reading {
            let awaited = total(response, asked);
            if facts.received < awaited {
                return Action::Await(awaited);
            }
            self.client = Client::Thinking { until: facts.now + think };
        }
        match self.client {
            Client::Closed => Action::Done,
            _ if asked >= count => {
                self.client = Client::Closed;
                Action::HalfClose
            }
            Client::Thinking { until } if facts.now < until => Action::Wait(until),
            Client::Thinking { .. } | Client::Reading => {
                self.client = Client::Reading;
                exchanges.announce(request.as_u64(), response.as_u64());
                Action::Write(request.as_u64())
            }
        }
    }

    fn answer(&mut self, facts: Facts) -> Action {
        let Requests { request, response, count, .. } = self.requests;
        if self.answered < count {
            let awaited = total(request, self.answered + 1);
            if facts.received < awaited {
                return Action::Await(awaited);
            }
            self.answered += 1;
            return Action::Write(response.as_u64());
        }
        self.server.next(facts)
    }
}

/// Bytes of `count` messages of this size.
fn total(size: Bytes, count: u32) -> u64 {
    size.as_u64().saturating_mul(u64::from(count))
}

encode_struct!(Requests { request, response, think, count });
