//! The log: lines on standard error, written by a thread of its own so that a slow reader delays no connection.
//!
//! Each line passes [`Log::line`], which leaves no control character in it: whatever text a line quotes, it stays one line, and no
//! terminal obeys it. Values that others choose are written by [`quoted`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Display;
use std::iter;
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use perigee_text::one_line;
use perigee_units::Time;

use super::stats::Stats;
use crate::host::clock::monotonic;

/// Takes lines from any thread.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    lines: SyncSender<String>,
    stats: Arc<Stats>,
    said: Arc<Mutex<HashSet<String>>>,
    rates: Arc<Mutex<[Rate; 2]>>,
}

/// Who causes a line, and as many of them as they like.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caused {
    /// Clients that are refused.
    ByClients,
    /// Boxes whose certificate is not known.
    ByStrangers,
}

/// Lines of one kind in the current second.
#[derive(Debug, Default)]
struct Rate {
    began: Time,
    lines: u32,
    left_out: u64,
}

/// The thread that writes the lines.
#[derive(Debug)]
pub(crate) struct Writer(Receiver<()>);

impl Log {
    /// A log, and its lines.
    pub(crate) fn new(stats: Arc<Stats>) -> (Self, Receiver<String>) {
        let (lines, written) = sync_channel(WAITING);
        (Self { lines, stats, said: Arc::default(), rates: Arc::default() }, written)
    }

    /// Logs a line, or counts it if too many wait.
    pub(crate) fn line(&self, line: String) {
        let line = match one_line(&line) {
            Cow::Owned(escaped) => escaped,
            Cow::Borrowed(_) => line,
        };
        if self.lines.try_send(cut(line, LONGEST)).is_err() {
            self.stats.unlogged.add(1);
        }
    }

    /// Logs a line, but only once.
    pub(crate) fn once(&self, line: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < MOST_SAID && said.insert(line.clone()) {
            self.line(line);
        }
    }

    /// Logs a line of those that others cause, with a bound per second for each kind; the next one says how many were left out.
    pub(crate) fn limited(&self, caused: Caused, line: String) {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        match rates[caused as usize].pass(caused.most(), monotonic()) {
            None => {}
            Some(0) => self.line(line),
            Some(left_out) => self.line(format!("{line} left_out={left_out}")),
        }
    }
}

impl Caused {
    /// Lines in a second.
    fn most(self) -> u32 {
        match self {
            Self::ByClients => 100,
            Self::ByStrangers => 1,
        }
    }
}

impl Rate {
    /// How many lines were left out before this one; `None`: this one is, too.
    fn pass(&mut self, most: u32, now: Time) -> Option<u64> {
        if now >= self.began + SECOND {
            (self.began, self.lines) = (now, 0);
        }
        if self.lines >= most {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Writer {
    /// Waits for the last lines, after all users of the log have ended; not for a reader that reads no more.
    pub(crate) fn finish(self) {
        // The thread sends nothing, and ends.
        let _ = self.0.recv_timeout(LAST_LINES);
    }
}

/// A value in quotation marks, in which nothing ends the value or the line; of a long one the beginning.
pub(crate) fn quoted(value: impl Display) -> String {
    format!("{:?}", cut(value.to_string(), LONGEST_VALUE))
}

/// Starts the thread that writes the lines on standard error; it ends after the last [`Log`].
///
/// A line after a pause is written at once. What follows it is gathered for [`GATHERED`]: the thread is not woken for each short
/// connection, which a busy core would pay with switches of context.
pub(crate) fn write(lines: Receiver<String>) -> Writer {
    let (running, ended) = channel();
    std::thread::spawn(move || {
        let _running = running;
        let mut text = String::new();
        while let Ok(first) = lines.recv() {
            text.clear();
            for line in iter::once(first).chain(lines.try_iter().take(MOST_GATHERED)) {
                text.push_str(&line);
                text.push('\n');
            }
            write_all(text.as_bytes());
            #[allow(clippy::disallowed_methods, reason = "nothing waits for this thread")]
            std::thread::sleep(GATHERED);
        }
    });
    Writer(ended)
}

/// Writes without the lock of the standard library, which the end of the process would wait for.
fn write_all(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(std::io::stderr(), bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            // The reader has gone.
            Err(_) => return,
        }
    }
}

/// The first characters of a text.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most
        && let Some((at, _)) = text.char_indices().nth(most)
    {
        text.truncate(at);
        text.push_str("...");
    }
    text
}

const SECOND: Time = Time::from_secs(1);
/// How long lines are gathered.
const GATHERED: Duration = Duration::from_millis(10);
/// Lines that are written at once.
const MOST_GATHERED: usize = 256;
/// Lines that may wait to be written.
const WAITING: usize = 8192;
/// Number of lines that [`Log::once`] remembers.
const MOST_SAID: usize = 1000;
/// Characters of a line, and of a value in it.
const LONGEST: usize = 4000;
pub(super) const LONGEST_VALUE: usize = 200;
/// How long the end of the service waits for its last lines to be read.
const LAST_LINES: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_line_quotes_it_is_one_line_and_its_values_end_where_they_should() {
        let (log, lines) = Log::new(Arc::default());
        let forged = "x\"\nconnection rule=far end=complete\u{1b}[31m\u{202e}";
        log.line(format!("tunnel down reason={}", quoted(forged)));
        log.line(format!("the old configuration stays: {forged}"));
        log.line("é".repeat(100_000));
        let lines: Vec<String> = lines.try_iter().collect();
        assert_eq!(lines[0], "tunnel down reason=\"x\\\"\\nconnection rule=far end=complete\\u{1b}[31m\\u{202e}\"");
        assert!(!lines[1].contains(char::is_control), "{}", lines[1]);
        assert_eq!(lines[2].chars().count(), LONGEST + 3);
        assert_eq!(quoted("\"".repeat(300)).len(), 2 * LONGEST_VALUE + 5);
    }

    #[test]
    fn what_others_cause_has_a_rate_and_is_counted() {
        let (mut rate, now) = (Rate::default(), Time::from_secs(50));
        let passed: Vec<_> = (0..5).map(|_| rate.pass(2, now)).collect();
        assert_eq!(passed, [Some(0), Some(0), None, None, None]);
        assert_eq!((rate.pass(2, now + SECOND), rate.pass(2, now + SECOND)), (Some(3), Some(0)));
    }
}
