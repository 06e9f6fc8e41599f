//! The log: lines on standard error, written by a thread of its own so that a slow reader delays no connection.
//!
//! Each line passes [`Log::line`], which leaves no control character in it: whatever text a line quotes, it stays one line, and no
//! terminal obeys it. Values that others choose are written by [`quoted`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::iter;
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use perigee_text::one_line;
use perigee_units::Time;

use super::stats::Stats;
use crate::host::clock::monotonic;
use crate::host::lines::ends_within_line;
use crate::host::threads::start_thread;

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

/// Whether the log ends within a line of another process, as far as it may be read.
pub(crate) fn is_torn() -> bool {
    let file = Some(STANDARD_ERROR).filter(|log| fs::metadata(log).is_ok_and(|it| it.is_file()));
    file.and_then(|log| ends_within_line(&File::open(log).ok()?)).unwrap_or(false)
}

/// Starts the thread that writes the lines on standard error, which may end within one; it ends after the last [`Log`].
///
/// A line after a pause is written at once. What follows it is gathered for [`GATHERED`]: the thread is not woken for each short
/// connection, which a busy core would pay with switches of context.
///
/// # Errors
/// If the host refuses a thread.
pub(crate) fn write(lines: Receiver<String>, stats: Arc<Stats>, mut is_torn: bool) -> io::Result<Writer> {
    let (running, ended) = channel();
    let run = move || {
        let _running = running;
        let mut text = String::new();
        while let Ok(first) = lines.recv() {
            text.clear();
            text.extend(is_torn.then_some('\n'));
            for line in iter::once(first).chain(lines.try_iter().take(MOST_GATHERED)) {
                text.push_str(&line);
                text.push('\n');
            }
            let left_out;
            (left_out, is_torn) = left(text.as_bytes(), write_all(text.as_bytes()), is_torn);
            stats.unlogged.add(left_out);
            #[allow(clippy::disallowed_methods, reason = "nothing waits for this thread")]
            std::thread::sleep(GATHERED);
        }
    };
    start_thread("pep-log", run)?;
    Ok(Writer(ended))
}

/// How many lines are missing of a text of which the first bytes were written, and whether these end within a line. If it begins with
/// the end of a torn one, that is none of its lines.
fn left(text: &[u8], written: usize, is_torn: bool) -> (u64, bool) {
    let ends = text.iter().enumerate().skip(usize::from(is_torn)).filter(|(_, byte)| **byte == b'\n');
    // All but the end of a line is the whole line.
    let left_out = ends.filter(|(end, _)| *end > written).count() as u64;
    (left_out, written.checked_sub(1).map_or(is_torn, |last| text[last] != b'\n'))
}

/// Writes without the lock of the standard library, which the end of the process would wait for. Returns how many bytes were taken.
fn write_all(bytes: &[u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::write(io::stderr(), &bytes[done..]) {
            Ok(written) => done += written,
            Err(rustix::io::Errno::INTR) => {}
            // The reader has gone, or the disk is full.
            Err(_) => break,
        }
    }
    done
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

/// The log, by its name.
const STANDARD_ERROR: &str = "/proc/self/fd/2";
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
    fn lines_that_a_full_disk_did_not_take_are_counted_and_a_torn_one_is_ended_once() {
        let text = b"one\ntwo\nfour\n";
        let cases =
            [(0, 3, false), (1, 3, true), (3, 2, true), (4, 2, false), (6, 2, true), (12, 0, true), (13, 0, false)];
        for (written, left_out, is_torn) in cases {
            assert_eq!(left(text, written, false), (left_out, is_torn), "{written}");
        }
        let text = [b"\n", &text[..]].concat();
        for (written, left_out, is_torn) in [(0, 3, true), (1, 3, false), (2, 3, true), (4, 2, true), (14, 0, false)] {
            assert_eq!(left(&text, written, true), (left_out, is_torn), "{written}, after a torn line");
        }
    }

    #[test]
    fn what_others_cause_has_a_rate_and_is_counted() {
        let (mut rate, now) = (Rate::default(), Time::from_secs(50));
        let passed: Vec<_> = (0..5).map(|_| rate.pass(2, now)).collect();
        assert_eq!(passed, [Some(0), Some(0), None, None, None]);
        assert_eq!((rate.pass(2, now + SECOND), rate.pass(2, now + SECOND)), (Some(3), Some(0)));
    }
}
