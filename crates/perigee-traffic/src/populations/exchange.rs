//! The conversation of a population's connection: one request, one response, after which the server closes (HTTP 1.0).

use perigee_units::Time;

use super::source::Visit;
use crate::conversation::{Action, Closing, Conversation, End, Facts};
use crate::exchanges::Exchanges;

/// One request and its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    visit: Visit,
    has_asked: bool,
    user: Closing,
    server: Server,
}

/// State of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Reading,
    Working { until: Time },
    Answered,
    Closed,
}

impl Exchange {
    pub(crate) fn new(visit: Visit) -> Self {
        Self { visit, has_asked: false, user: Closing::default(), server: Server::Reading }
    }
}

impl Conversation for Exchange {
    fn next(&mut self, end: End, facts: Facts, exchanges: &mut Exchanges) -> Action {
        match end {
            End::To => self.ask(facts, exchanges),
            End::From => self.answer(facts),
        }
    }
}

impl Exchange {
    fn ask(&mut self, facts: Facts, exchanges: &mut Exchanges) -> Action {
        let Visit { request, response, .. } = self.visit;
        if !std::mem::replace(&mut self.has_asked, true) {
            exchanges.announce(request, response);
            Action::Write(request)
        } else if facts.received < response {
            Action::Await(response)
        } else {
            self.user.next(facts)
        }
    }

    fn answer(&mut self, facts: Facts) -> Action {
        let Visit { request, response, service, .. } = self.visit;
        if self.server == Server::Reading {
            if facts.received < request {
                return Action::Await(request);
            }
            self.server = Server::Working { until: facts.now + service };
        }
        match self.server {
            Server::Working { until } if facts.now < until => Action::Wait(until),
            Server::Working { .. } | Server::Reading => {
                self.server = Server::Answered;
                Action::Write(response)
            }
            Server::Answered => {
                self.server = Server::Closed;
                Action::HalfClose
            }
            Server::Closed if !facts.closed => Action::AwaitClose,
            Server::Closed => Action::Done,
        }
    }
}
