//! The exchanges of one connection, one at a time, with their start and end.

use perigee_results::ExchangeLog;
use perigee_units::Time;

/// The exchanges of a connection.
///
/// The application at `to` announces each exchange before it writes the request. Observed bytes determine its start and end: in
/// the simulator those that the applications write and read, in the emulator those that enter the first link and leave the
/// last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchanges {
    log: ExchangeLog,
    announced: u32,
    complete: u32,
    /// The announced exchange that has not begun.
    ahead: Option<Announced>,
    /// Bytes of all requests.
    request_bytes: u64,
    /// Bytes of all responses.
    response_bytes: u64,
}

/// An exchange whose request has not been sent.
#[derive(Clone, Copy, Debug)]
struct Announced {
    /// Bytes of the requests before it.
    before: u64,
    request_bytes: u64,
    response_bytes: u64,
}

impl Exchanges {
    /// Announces a request before the application at `to` writes it.
    pub(crate) fn announce(&mut self, request_bytes: u64, response_bytes: u64) {
        self.ahead = Some(Announced { before: self.request_bytes, request_bytes, response_bytes });
        self.announced += 1;
        self.request_bytes = self.request_bytes.saturating_add(request_bytes);
        self.response_bytes = self.response_bytes.saturating_add(response_bytes);
    }

    /// `to` has sent `total` bytes of requests by now: the first byte of a request begins its exchange.
    pub(crate) fn request_sent(&mut self, now: Time, total: u64) {
        if let Some(begun) = self.ahead.take_if(|ahead| total > ahead.before) {
            self.log.begin(now, begun.request_bytes, begun.response_bytes);
        }
    }

    /// `total` bytes of responses have been delivered to `to` by now: the last byte of a response ends its exchange.
    pub(crate) fn response_delivered(&mut self, now: Time, total: u64) {
        if total >= self.awaited() {
            self.log.complete_latest(now);
            self.complete += 1;
        }
    }

    /// The count of bytes of responses that completes an exchange; `u64::MAX` while none is open.
    pub(crate) fn awaited(&self) -> u64 {
        if self.log.is_open() && self.ahead.is_none() {
            self.response_bytes
        } else {
            u64::MAX
        }
    }

    /// Number of announced exchanges.
    pub(crate) fn announced(&self) -> u32 {
        self.announced
    }

    /// Number of complete exchanges.
    pub(crate) fn complete(&self) -> u32 {
        self.complete
    }

    /// The exchanges that have begun.
    pub(crate) fn log(&self) -> &ExchangeLog {
        &self.log
    }
}
