//! Exchanges of one flow: requests with their responses, or pings with their replies.

use perigee_units::Time;

use crate::meter::FlowId;
use crate::{ExchangeRow, Exchanges};

/// The exchanges of a flow so far, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangeLog(Vec<Exchange>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exchange {
    start: Time,
    duration: Option<Time>,
    request_bytes: u64,
    response_bytes: u64,
}

impl ExchangeLog {
    /// Begins the next exchange, of a request and a response of these sizes.
    pub fn begin(&mut self, now: Time, request_bytes: u64, response_bytes: u64) {
        self.0.push(Exchange { start: now, duration: None, request_bytes, response_bytes });
    }

    /// Completes the latest exchange, if it is not complete yet.
    pub fn complete_latest(&mut self, now: Time) {
        if let Some(exchange) = self.0.last_mut().filter(|exchange| exchange.duration.is_none()) {
            exchange.duration = Some(now - exchange.start);
        }
    }

    /// Completes exchange `number` after `duration`, if it has begun.
    pub fn complete(&mut self, number: u32, duration: Time) {
        if let Some(exchange) = self.0.get_mut(number as usize) {
            exchange.duration = Some(duration);
        }
    }

    /// Exchanges that have begun.
    pub fn begun(&self) -> u32 {
        self.0.len() as u32
    }

    /// Whether the latest exchange has begun and is not complete.
    pub fn is_open(&self) -> bool {
        self.0.last().is_some_and(|exchange| exchange.duration.is_none())
    }

    /// Completion times in order, up to the first exchange that is not complete.
    pub fn completions(&self) -> impl Iterator<Item = Time> + '_ {
        self.0.iter().map_while(|exchange| exchange.duration.map(|duration| exchange.start + duration))
    }

    /// Adds a row for each exchange.
    pub fn write(&self, id: FlowId<'_>, table: &mut Exchanges) {
        for (number, exchange) in (0..).zip(&self.0) {
            table.push(ExchangeRow {
                run: id.run,
                flow: id.flow.clone(),
                number,
                start_s: exchange.start.as_secs_f64(),
                request_bytes: exchange.request_bytes,
                response_bytes: exchange.response_bytes,
                duration_ms: exchange.duration.map(Time::as_millis_f64),
            });
        }
    }
}
