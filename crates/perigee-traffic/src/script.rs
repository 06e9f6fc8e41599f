//! The script of a flow over TCP: actions at the two ends of its connection, and its completion.

use perigee_results::{FlowId, Tables};
use perigee_units::{Stream, Time};

use crate::apps::App;
use crate::conversation::{Action, Conversation, End, Facts, Goal};
use crate::exchanges::Exchanges;

/// The application of one flow: the actions at each end of the connection, and its observations.
///
/// ```
/// use perigee_results::Amount;
/// use perigee_traffic::{Action, App, Bulk, End, Facts, Script};
/// use perigee_units::{Bytes, Stream, Time};
///
/// let app = App::Bulk(Bulk { amount: Amount::Size(Bytes::new(5_000)), offered: Vec::new() });
/// let mut script = Script::new(&app, Time::ZERO, Stream::new(1, "flow/download/traffic"));
/// assert_eq!(script.next(End::From, Facts::default()), Action::Write(5_000));
/// assert_eq!(script.next(End::From, Facts::default()), Action::HalfClose);
/// assert_eq!(script.awaited(), 5_000);
/// assert!(script.delivered(Time::from_secs(1), 5_000));
/// ```
#[derive(Debug)]
pub struct Script {
    start: Time,
    goal: Goal,
    conversation: Box<dyn Conversation>,
    exchanges: Exchanges,
}

impl Script {
    /// The script of a flow that starts at `start`; equal streams make equal scripts.
    pub fn new(app: &App, start: Time, random: Stream) -> Self {
        let application = app.application();
        let (goal, conversation) = (application.goal(start), application.conversation(start, random));
        Self { start, goal, conversation, exchanges: Exchanges::default() }
    }

    /// The script of one connection of a population, opened at `start`.
    pub(crate) fn of_connection(conversation: Box<dyn Conversation>, start: Time) -> Self {
        Self { start, goal: Goal::Exchanges(1), conversation, exchanges: Exchanges::default() }
    }

    /// The next action at an end whose handshake is complete.
    pub fn next(&mut self, end: End, facts: Facts) -> Action {
        self.conversation.next(end, facts, &mut self.exchanges)
    }

    /// A message of the other end has arrived whole at `end`: the request or the response on the stream with this number, where each has a
    /// stream of its own.
    pub fn message_arrived(&mut self, end: End, stream: usize) {
        self.conversation.message_arrived(end, stream);
    }

    /// Whether writes leave at once even if they do not fill a segment (`TCP_NODELAY`).
    pub fn is_interactive(&self) -> bool {
        self.conversation.is_interactive()
    }

    /// `to` has sent `total` bytes by now; the first byte of a request begins its exchange.
    pub fn request_sent(&mut self, now: Time, total: u64) {
        self.exchanges.request_sent(now, total);
    }

    /// `total` bytes have been delivered to `to` in order by now; the last byte of a response ends its exchange. True if this
    /// completes the flow.
    pub fn delivered(&mut self, now: Time, total: u64) -> bool {
        self.exchanges.response_delivered(now, total);
        match self.goal {
            Goal::Bytes(bytes) => total >= bytes,
            Goal::Instant(_) => false,
            Goal::Exchanges(count) => self.exchanges.complete() >= count,
        }
    }

    /// The next count of bytes delivered to `to` to be reported, which completes an exchange or the flow; `u64::MAX`: none.
    pub fn awaited(&self) -> u64 {
        match self.goal {
            Goal::Bytes(bytes) => bytes,
            Goal::Instant(_) | Goal::Exchanges(_) => self.exchanges.awaited(),
        }
    }

    /// The instant at which the flow is complete regardless of delivered bytes; [`Time::MAX`] if none is set.
    pub fn ends_at(&self) -> Time {
        match self.goal {
            Goal::Instant(at) => at,
            Goal::Bytes(_) | Goal::Exchanges(_) => Time::MAX,
        }
    }

    /// Progress of the flow from 0 to 1, with `received` bytes delivered to `to` by now.
    pub fn progress(&self, now: Time, received: u64) -> f64 {
        let share = match self.goal {
            Goal::Bytes(bytes) => received as f64 / bytes.max(1) as f64,
            Goal::Instant(at) => share_of_time(now, self.start, at),
            Goal::Exchanges(count) => f64::from(self.exchanges.log().begun()) / f64::from(count.max(1)),
        };
        share.min(1.0)
    }

    /// Writes a row for each exchange that has begun, and the rows specific to this kind of flow, which ended at `end`.
    pub fn write(&self, id: FlowId<'_>, end: Time, tables: &mut Tables) {
        self.exchanges.log().write(id, &mut tables.exchanges);
        self.conversation.write(id, self.exchanges.log(), end, tables);
    }
}

/// The elapsed share of the time from `start` to `end`, from 0 to 1.
pub(crate) fn share_of_time(now: Time, start: Time, end: Time) -> f64 {
    let length = (end - start).as_secs_f64();
    if length > 0.0 {
        ((now - start).as_secs_f64() / length).min(1.0)
    } else {
        1.0
    }
}
