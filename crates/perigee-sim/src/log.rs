//! The logs of a data sender that the study asks for.

use perigee_cc::Watched;
use perigee_results::{EventRow, FlowId, FlowRow, Measure, Tables};
use perigee_tcp::{Endpoint, Header, Segment};
use perigee_units::Time;

use crate::capture_log::CaptureLog;
use crate::event_log::EventLog;
use crate::state_log::StateLog;

pub(crate) struct Log {
    events: Option<EventLog>,
    states: Option<StateLog>,
    capture: Option<CaptureLog>,
    /// The watched values of the sender's congestion control.
    watched: &'static [Watched],
}

impl Log {
    /// The logs that `measure` asks for of the sender `host`, if any. Captures are of whole flows, not of their legs.
    pub(crate) fn of(measure: &Measure, host: &Endpoint, is_leg: bool) -> Option<Box<Self>> {
        let (events, states) = (measure.events.then(EventLog::default), measure.states.map(StateLog::new));
        let capture = measure.capture.as_ref().filter(|_| !is_leg);
        let capture = capture.map(|rules| CaptureLog::new(rules.clone(), host));
        let watched = host.algorithm().watched();
        let asks = events.is_some() || states.is_some() || capture.is_some();
        asks.then(|| Box::new(Self { events, states, capture, watched }))
    }

    pub(crate) fn sent(&mut self, now: Time, segment: &Segment, host: &mut Endpoint) {
        if let Some(log) = &mut self.events {
            log.sent(now, segment, host);
        }
        if let Some(log) = &mut self.capture {
            log.sent(now, segment, 1);
        }
        if let Some(log) = &mut self.states {
            log.passed(now, host);
        }
    }

    /// Logs an ACK, with the round-trip sample it gave.
    pub(crate) fn acknowledged(&mut self, now: Time, header: &Header, rtt: Option<Time>, host: &mut Endpoint) {
        if let Some(log) = &mut self.events {
            log.acknowledged(now, header, rtt, host);
        }
        if let Some(log) = &mut self.capture {
            log.acknowledged(now, header);
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

    pub(crate) fn capture(&mut self) -> Option<&mut CaptureLog> {
        self.capture.as_mut()
    }

    /// Fills in the columns of a capture.
    pub(crate) fn fill(&mut self, row: &mut FlowRow) {
        if let Some(log) = &mut self.capture {
            log.fill(row);
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
