//! Requests and responses in turn over one TCP connection: the applications at both ends, and what is seen of them.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;

use perigee_capture::{Receiver, Tcp as Segment};
use perigee_study::results::{ExchangeRow, Exchanges};
use perigee_units::Time;
use rustix::net::sockopt::set_tcp_nodelay;

use crate::apps::{panicked, take, write, Ends, Told, PRIORITY};
use crate::clock::{monotonic, sleep_until, wake_precisely};

/// What is asked and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Talk {
    /// Bytes of a request.
    pub(crate) request: u64,
    /// Bytes of a response.
    pub(crate) response: u64,
    /// From the end of a response to the next request.
    pub(crate) think: Time,
    /// How many requests.
    pub(crate) count: u32,
}

/// A connection over which is asked and answered.
pub(crate) struct Requests {
    /// When it begins.
    pub(crate) start: Time,
    pub(crate) talk: Talk,
    pub(crate) ends: Ends,
}

impl Requests {
    /// Asks and answers.
    pub(crate) fn carry(self, told: &Told, stop: &AtomicBool) -> io::Result<()> {
        if !sleep_until(self.start, stop) {
            return Ok(());
        }
        let (Ends { from, to }, talk) = (self.ends, self.talk);
        thread::scope(|scope| {
            let answering = scope.spawn(|| {
                told.end((|| {
                    let Some(from) = from.connected(told, stop)? else { return Ok(()) };
                    let _ = told.socket.set(from.try_clone()?);
                    answer(&from, talk, stop)
                })())
            });
            let asked = told.end((|| {
                let Some(to) = to.connected(told, stop)? else { return Ok(()) };
                let _ = told.far.set(to.try_clone()?);
                ask(&to, talk, stop)
            })());
            answering.join().unwrap_or_else(|_| Err(panicked())).and(asked)
        })
    }
}

/// The application at `to`.
fn ask(stream: &TcpStream, talk: Talk, stop: &AtomicBool) -> io::Result<()> {
    // As the simulator has it: what comes is read at once, what is written is sent at once.
    wake_precisely(PRIORITY);
    set_tcp_nodelay(stream, true)?;
    for number in 0..talk.count {
        let due = if number == 0 { Time::ZERO } else { monotonic() + talk.think };
        let asked = sleep_until(due, stop) && write(stream, talk.request, Time::MAX, stop)?;
        if !asked || !take(stream, talk.response, stop)? {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    Ok(())
}

/// The application at `from`.
fn answer(stream: &TcpStream, talk: Talk, stop: &AtomicBool) -> io::Result<()> {
    // As the simulator has it: what comes is read at once, what is written is sent at once.
    wake_precisely(PRIORITY);
    set_tcp_nodelay(stream, true)?;
    for _ in 0..talk.count {
        if !take(stream, talk.request, stop)? || !write(stream, talk.response, Time::MAX, stop)? {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    Ok(())
}

/// The exchanges, as the ends of the links see them: a request begins with its first packet, a response ends with its last.
pub(crate) struct Seen {
    talk: Talk,
    /// What `to` has sent.
    asked: Receiver,
    /// Start and length of each so far.
    exchanges: Vec<(Time, Option<Time>)>,
}

impl Seen {
    pub(crate) fn new(talk: Talk) -> Self {
        Self { talk, asked: Receiver::default(), exchanges: Vec::new() }
    }

    /// `to` has sent a segment.
    pub(crate) fn request(&mut self, now: Time, segment: &Segment) {
        self.asked.segment(segment);
        let begun = self.exchanges.len() as u64;
        if begun < u64::from(self.talk.count) && self.asked.received() > self.talk.request * begun {
            self.exchanges.push((now, None));
        }
    }

    /// `to` has got so many bytes in order; whether that was all.
    pub(crate) fn response(&mut self, now: Time, received: u64) -> bool {
        let under_way = self.exchanges.len() as u64;
        if let Some((start, length @ None)) = self.exchanges.last_mut() {
            if received >= self.talk.response * under_way {
                *length = Some(now.checked_sub(*start).unwrap_or_default());
            }
        }
        self.done() >= self.talk.count
    }

    /// How many have come to their end.
    pub(crate) fn done(&self) -> u32 {
        let open = matches!(self.exchanges.last(), Some((_, None)));
        self.exchanges.len() as u32 - u32::from(open)
    }

    /// How far it is, from 0 to 1.
    pub(crate) fn share_done(&self) -> f64 {
        self.exchanges.len() as f64 / f64::from(self.talk.count.max(1))
    }

    /// Writes them; `blank` names the run and the flow.
    pub(crate) fn write(&self, blank: &ExchangeRow, table: &mut Exchanges) {
        for (number, (start, length)) in (0..).zip(&self.exchanges) {
            table.push(ExchangeRow {
                number,
                start_s: start.as_secs_f64(),
                request_bytes: self.talk.request,
                response_bytes: self.talk.response,
                duration_ms: length.map(Time::as_millis_f64),
                ..blank.clone()
            });
        }
    }
}
