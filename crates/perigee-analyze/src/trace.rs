//! The time sequence of a flow: its segments and acknowledgements as they pass (Stevens 1994, chapter 20).

use perigee_results::{Name, SegmentRow, Segments};
use perigee_units::Time;

/// The rows of one flow, up to a number that bounds memory.
pub(crate) struct SequenceTrace {
    run: u32,
    flow: Name,
    rows: Vec<SegmentRow>,
    left_out: u64,
    /// The last row is of the packet that passes: its next piece may continue it.
    is_open: bool,
    /// The events' names, shared by all rows.
    names: [Name; 4],
}

/// An event of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Sent,
    Retransmitted,
    Ack,
    Sack,
}

impl SequenceTrace {
    pub(crate) fn new(run: u32, flow: Name) -> Self {
        let names = ["sent", "retransmitted", "ack", "sack"].map(Name::from);
        Self { run, flow, rows: Vec::new(), left_out: 0, is_open: false, names }
    }

    /// A packet with data passes; its pieces follow.
    pub(crate) fn packet(&mut self) {
        self.is_open = false;
    }

    /// A piece of the packet: one row with those before it, unless they differ.
    pub(crate) fn segment(&mut self, now: Time, event: Event, start: u64, end: u64) {
        let name = &self.names[event as usize];
        if let Some(last) = self.rows.last_mut().filter(|last| self.is_open && last.event == *name)
            && last.sequence + last.segment_bytes == start
        {
            last.segment_bytes += end - start;
            return;
        }
        self.is_open = true;
        self.push(now.as_secs_f64(), event, (start, end), None);
    }

    /// An acknowledgement passes; its blocks follow.
    pub(crate) fn acknowledgement(&mut self, now: Time, position: u64, window: u64) {
        self.push(now.as_secs_f64(), Event::Ack, (position, position), Some(window));
    }

    /// A block of the acknowledgement that passed last.
    pub(crate) fn block(&mut self, now: Time, start: u64, end: u64) {
        self.push(now.as_secs_f64(), Event::Sack, (start, end), None);
    }

    fn push(&mut self, t_s: f64, event: Event, (start, end): (u64, u64), window: Option<u64>) {
        if self.rows.len() >= MOST_ROWS {
            self.left_out += 1;
            return;
        }
        self.rows.push(SegmentRow {
            run: self.run,
            flow: self.flow.clone(),
            t_s,
            event: self.names[event as usize].clone(),
            sequence: start,
            segment_bytes: end.saturating_sub(start),
            receive_window_bytes: window,
        });
    }

    /// Moves the rows into a table; returns how many were left out for want of room.
    pub(crate) fn write(self, segments: &mut Segments) -> u64 {
        self.rows.into_iter().for_each(|row| segments.push(row));
        self.left_out
    }
}

/// Rows of one flow: a download of 400 MB, or some 50 MB of memory.
const MOST_ROWS: usize = 500_000;
