//! The logs of a data sender that the study asks for.

use perigee_cc::Watched;
use perigee_results::{EventRow, FlowId, FlowRow, Measure, SenderCapture, Tables};
use perigee_tcp::{Endpoint, Flags, Header, Segment};
use perigee_units::{nearest_position, Time};

use crate::event_log::{Data, EventLog};
use crate::state_log::StateLog;

pub(crate) struct Log {
    events: Option<EventLog>,
    states: Option<StateLog>,
    /// A capture of what leaves and arrives.
    capture: Option<SenderCapture>,
    /// The watched values of the sender's congestion control.
    watched: &'static [Watched],
    /// Sequence number of the start of the stream.
    origin: u32,
    /// End of the data sent, from the start of the stream.
    sent_until: u64,
}

impl Log {
    /// The logs that `measure` asks for of the sender `host`, if any. Captures are of whole flows, not of their legs.
    pub(crate) fn of(measure: &Measure, host: &Endpoint, is_leg: bool) -> Option<Box<Self>> {
        let (events, states) = (measure.events.then(EventLog::default), measure.states.map(StateLog::new));
        let rules = measure.capture.as_ref().filter(|_| !is_leg);
        let capture = rules.map(|rules| SenderCapture::new(rules.clone(), host.has_offload()));
        let watched = host.algorithm().watched();
        let asks = events.is_some() || states.is_some() || capture.is_some();
        asks.then(|| Box::new(Self { events, states, capture, watched, origin: 0, sent_until: 0 }))
    }

    /// Logs a segment that leaves.
    pub(crate) fn sent(&mut self, now: Time, segment: &Segment, host: &mut Endpoint) {
        let data = self.capture_sent(now, segment, 1);
        if let (Some(log), Some(data)) = (&mut self.events, data) {
            log.sent(now, data, segment.len, host);
        }
        if let Some(log) = &mut self.states {
            log.passed(now, host);
        }
    }

    /// Logs an ACK, with the round-trip sample it gave.
    pub(crate) fn acknowledged(&mut self, now: Time, header: &Header, rtt: Option<Time>, host: &mut Endpoint) {
        let position = self.capture_acknowledged(now, header);
        if let (Some(log), Some(position)) = (&mut self.events, position) {
            log.acknowledged(now, position, rtt, host);
        }
        if let Some(log) = &mut self.states {
            log.acknowledged(now, header, rtt, host);
        }
    }

    pub(crate) fn timer(&mut self, now: Time, host: &mut Endpoint) {
        if let Some(log) = &mut self.events {
            log.timer(now, host);
        }
        if let Some(log) = &mut self.states {
            log.passed(now, host);
        }
    }

    /// Whether it is a capture alone, which needs nothing of the sender but what leaves and arrives, and when.
    pub(crate) fn is_capture(&self) -> bool {
        self.events.is_none() && self.states.is_none()
    }

    /// Captures `segments` consecutive segments of one size, which leave at `now`; `first` is the first one's header. Returns their data,
    /// if they carry any.
    #[inline]
    pub(crate) fn capture_sent(&mut self, now: Time, first: &Header, segments: u32) -> Option<Data> {
        if first.flags.has(Flags::SYN) {
            self.origin = first.seq.wrapping_add(1);
        }
        if first.len == 0 {
            return None;
        }
        let (position, bytes) = (self.position(first.seq), u64::from(first.len));
        let is_repeated = position < self.sent_until;
        self.sent_until = self.sent_until.max(position + u64::from(segments) * bytes);
        if let Some(capture) = &mut self.capture {
            capture.sent(now, position, bytes, segments);
        }
        Some(Data { position, is_repeated })
    }

    /// Captures an ACK; returns the position before which it acknowledges all data, unless it opens the connection.
    #[inline]
    pub(crate) fn capture_acknowledged(&mut self, now: Time, header: &Header) -> Option<u64> {
        if !header.flags.has(Flags::ACK) || header.flags.has(Flags::SYN) {
            return None;
        }
        let position = self.position(header.ack);
        if let Some(capture) = &mut self.capture {
            capture.acknowledged(now, position);
        }
        Some(position)
    }

    /// The stream position of a sequence number: the one nearest to the data sent.
    fn position(&self, sequence: u32) -> u64 {
        nearest_position(sequence.wrapping_sub(self.origin), self.sent_until).unwrap_or(0)
    }

    /// Fills in the columns of a capture.
    pub(crate) fn fill(&mut self, row: &mut FlowRow) {
        if let Some(capture) = &mut self.capture {
            capture.fill(row);
        }
    }

    /// Adds the rows to the tables, as those of a flow or of one of its legs.
    pub(crate) fn write(self, id: FlowId<'_>, tables: &mut Tables) {
        let FlowId { run, flow, leg } = id;
        for event in self.events.map_or_else(Vec::new, EventLog::into_rows) {
            tables.events.push(EventRow { run, flow: flow.clone(), leg, ..event });
        }
        if let Some(states) = self.states {
            states.write(id, self.watched, &mut tables.states);
        }
    }
}
