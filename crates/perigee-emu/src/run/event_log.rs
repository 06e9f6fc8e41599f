//! The log of the kernel's TCP senders, as rows of the table `events`.

use std::collections::BTreeMap;
use std::io;

use perigee_bpf::{LoggedEnd, TcpEvent, TcpLog, TcpLogError, What};
use perigee_cc::{CaState, INFINITE_SSTHRESH};
use perigee_results::{EventRow, Events, GapRow, Name};
use perigee_study::{FlowSpec, Opener, Run, Traffic};
use perigee_units::{nearest_position, Time};
use perigee_wire::Ports;

use crate::os::namespace::Namespace;

/// Starts logging a run's TCP senders, in the namespaces of its nodes.
pub(crate) fn start(run: &Run, namespaces: &[Namespace]) -> Result<TcpLog, EventLogError> {
    let mut ends = Vec::new();
    for (flow, spec) in (0..).zip(&run.scenario.flows) {
        let Traffic::Tcp { tcp, .. } = &spec.traffic else { continue };
        let namespace = namespaces[spec.from as usize].number()?;
        let port = Ports::of(flow).server;
        ends.push(LoggedEnd { namespace, port, is_local: tcp.opened_by == Opener::Receiver, flow });
    }
    Ok(TcpLog::start(&ends)?)
}

/// Why senders cannot be logged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventLogError {
    #[error(transparent)]
    Log(#[from] TcpLogError),
    #[error("looking at a namespace: {0}")]
    Namespace(#[from] io::Error),
}

/// Ends the log: its rows, and the number of missing events. `origin` is the monotonic time of the run's start.
pub(crate) fn finish(run: &Run, log: TcpLog, origin: Time) -> (Events, Option<GapRow>) {
    let logged = log.finish();
    let gap = || GapRow { run: run.index, record: "events".into(), of: "".into(), missing: logged.missing };
    (rows(run, &logged.events, origin), (logged.missing > 0).then(gap))
}

fn rows(run: &Run, events: &[TcpEvent], origin: Time) -> Events {
    let sender = |flow: &FlowSpec| SenderPosition { name: flow.name.clone(), origin: None, sent_until: 0, burst: 0 };
    let mut senders: Vec<_> = run.scenario.flows.iter().map(sender).collect();
    let (mut rows, texts) = (Events::default(), Texts::default());
    for (event, next) in events.iter().zip(next_of_same_flow(events)) {
        let at = Time::from_nanos(event.at_ns).checked_sub(origin).unwrap_or_default();
        rows.push(senders[event.flow as usize].row(run.index, at, event, &events[next], &texts));
    }
    rows
}

/// For each event the index of its sender's next event; for the last one, its own.
fn next_of_same_flow(events: &[TcpEvent]) -> Vec<usize> {
    let mut next: Vec<usize> = (0..events.len()).collect();
    let mut later = BTreeMap::new();
    for number in (0..events.len()).rev() {
        if let Some(later) = later.insert(events[number].flow, number) {
            next[number] = later;
        }
    }
    next
}

/// Position of a sender's stream.
struct SenderPosition {
    name: Name,
    /// Sequence number of the first byte seen, sent or acknowledged.
    origin: Option<u32>,
    /// End of the sent data, relative to the start of the stream.
    sent_until: u64,
    /// Packets sent since TCP last counted: it counts after sending all segments of a burst.
    burst: u32,
}

impl SenderPosition {
    /// The row of an event; the state after it is the state before the sender's next event.
    fn row(&mut self, run: u32, at: Time, event: &TcpEvent, next: &TcpEvent, texts: &Texts) -> EventRow {
        let in_flight =
            |event: &TcpEvent| (event.packets_out + event.retrans).saturating_sub(event.sacked + event.lost);
        let (mut inflight_packets, mut segment_bytes) = (in_flight(next), 0);
        let (name, sequence) = match event.what {
            What::Sent { seq, bytes } => {
                let sequence = self.position(seq);
                let name = if sequence < self.sent_until { &texts.retransmitted } else { &texts.sent };
                self.sent_until = self.sent_until.max(sequence + u64::from(bytes));
                self.burst += 1;
                inflight_packets = inflight_packets.max(in_flight(event) + self.burst);
                if (event.packets_out, event.retrans) != (next.packets_out, next.retrans) {
                    self.burst = 0;
                }
                segment_bytes = bytes;
                (name, sequence)
            }
            What::Ack { seq } => (&texts.ack, self.position(seq)),
            What::Timer => (&texts.timer, self.position(event.una)),
        };
        // A segment is delivered once: a later one has another time of sending or another round trip.
        let delivered = |event: &TcpEvent| (event.delivered_sent_us, event.rtt_us);
        let has_sample = matches!(event.what, What::Ack { .. }) && delivered(event) != delivered(next);
        // A segment just sent is counted after the event that follows it in a burst.
        let snd_nxt_bytes = self.position(next.next).max(self.sent_until);
        EventRow {
            run,
            flow: self.name.clone(),
            leg: None,
            t_s: at.as_secs_f64(),
            event: name.clone(),
            sequence,
            segment_bytes,
            cwnd_packets: next.cwnd,
            ssthresh_packets: (next.ssthresh < INFINITE_SSTHRESH).then_some(next.ssthresh),
            inflight_packets,
            sacked_packets: next.sacked,
            lost_packets: next.lost,
            clamp_packets: (next.clamp < u32::MAX).then_some(next.clamp),
            snd_nxt_bytes,
            rtt_ms: has_sample.then(|| f64::from(next.rtt_us) * 1e-3),
            srtt_ms: (next.srtt_us > 0).then(|| f64::from(next.srtt_us) * 1e-3),
            rttvar_ms: (next.srtt_us > 0).then(|| f64::from(next.deviation_us) * 1e-3),
            rto_ms: next.rto_us as f64 * 1e-3,
            receive_window_bytes: u64::from(next.window),
            ca_state: texts.states[next.ca_state as usize].clone(),
            pacing_mbps: next.pacing_rate.map(|rate| rate as f64 * 8e-6),
        }
    }

    /// A sequence number as a position in the stream: the nearest to the sent data.
    fn position(&mut self, sequence: u32) -> u64 {
        let origin = *self.origin.get_or_insert(sequence);
        nearest_position(sequence.wrapping_sub(origin), self.sent_until).unwrap_or(0)
    }
}

/// The strings of the rows, shared by all.
struct Texts {
    sent: Name,
    retransmitted: Name,
    ack: Name,
    timer: Name,
    /// The names of [`perigee_cc::CaState`], indexed by its number.
    states: [Name; 5],
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            sent: "sent".into(),
            retransmitted: "retransmitted".into(),
            ack: "ack".into(),
            timer: "timer".into(),
            states: CaState::ALL.map(|state| state.as_str().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: What, packets_out: u32) -> TcpEvent {
        TcpEvent {
            at_ns: 0,
            flow: 0,
            what,
            una: u32::MAX - 99,
            next: u32::MAX - 99,
            clamp: u32::MAX,
            deviation_us: 0,
            rtt_us: 0,
            delivered_sent_us: 0,
            window: 65_535,
            cwnd: 10 + packets_out,
            ssthresh: INFINITE_SSTHRESH,
            packets_out,
            sacked: 0,
            lost: 0,
            retrans: 0,
            srtt_us: 0,
            rto_us: 1_000_000,
            pacing_rate: None,
            ca_state: CaState::Open,
        }
    }

    #[test]
    fn a_row_has_the_state_that_the_next_event_begins_with_and_positions_even_where_numbers_wrap() {
        let mut sender = SenderPosition { name: "f".into(), origin: None, sent_until: 0, burst: 0 };
        let origin = u32::MAX - 99;
        let sent = |at: u32, bytes| What::Sent { seq: origin.wrapping_add(at), bytes };
        let events = [
            event(What::Ack { seq: origin }, 0),
            // Two segments of one burst, which TCP counts after the second.
            event(sent(0, 1000), 0),
            event(sent(1000, 1000), 0),
            event(sent(2000, 10), 2),
            event(sent(1000, 1000), 3),
            event(What::Ack { seq: origin.wrapping_add(2010) }, 3),
            event(What::Timer, 0),
        ];
        let texts = Texts::default();
        let rows = events.iter().zip(next_of_same_flow(&events)).map(|(event, next)| {
            let row = sender.row(1, Time::from_millis(5), event, &events[next], &texts);
            assert_eq!((row.clamp_packets, row.rtt_ms, row.rttvar_ms), (None, None, None));
            assert!(
                row.snd_nxt_bytes >= row.sequence + u64::from(row.segment_bytes),
                "what is sent is before the next byte"
            );
            (row.event.to_string(), row.sequence, row.segment_bytes, row.inflight_packets, row.cwnd_packets)
        });
        let rows: Vec<_> = rows.collect();
        let expected = [
            ("ack", 0, 0, 0, 10),
            ("sent", 0, 1000, 1, 10),
            ("sent", 1000, 1000, 2, 12),
            ("sent", 2000, 10, 3, 13),
            ("retransmitted", 1000, 1000, 4, 13),
            ("ack", 2010, 0, 0, 10),
            ("timer", 0, 0, 0, 10),
        ];
        assert_eq!(rows, expected.map(|(name, a, b, c, d)| (name.to_owned(), a, b, c, d)));
    }

    #[test]
    fn an_acknowledgement_has_the_round_trip_that_it_measured_and_no_other_event_has_one() {
        let mut sender = SenderPosition { name: "f".into(), origin: None, sent_until: 0, burst: 0 };
        let (start, texts) = (u32::MAX - 99, Texts::default());
        let first = TcpEvent { clamp: 40, ..event(What::Ack { seq: start }, 0) };
        let measured = TcpEvent {
            srtt_us: 600_000,
            deviation_us: 300_000,
            rtt_us: 600_000,
            delivered_sent_us: 5,
            next: start.wrapping_add(2000),
            ..first
        };
        let ends = [(first, measured), (measured, measured), (TcpEvent { what: What::Timer, ..first }, measured)];
        let rows = ends.map(|(event, next)| sender.row(1, Time::ZERO, &event, &next, &texts));
        assert_eq!(rows.each_ref().map(|row| row.rtt_ms), [Some(600.0), None, None]);
        assert_eq!(rows.each_ref().map(|row| row.rttvar_ms), [Some(300.0); 3]);
        assert_eq!(rows.each_ref().map(|row| (row.clamp_packets, row.snd_nxt_bytes)), [(Some(40), 2000); 3]);
    }

    #[test]
    fn events_of_other_senders_come_between() {
        let mut events = [What::Timer; 4].map(|what| event(what, 0));
        events[1].flow = 1;
        events[2].flow = 1;
        assert_eq!(next_of_same_flow(&events), [3, 2, 2, 3]);
    }
}
