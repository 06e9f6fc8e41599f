//! The event log of a TCP sender: a row per data segment sent, ACK and timeout.

use perigee_results::{EventRow, Name};
use perigee_tcp::{Endpoint, Flags, Header, Segment};
use perigee_units::{nearest_position, Time};

/// The rows of the log.
#[derive(Default)]
pub(crate) struct EventLog {
    rows: Vec<EventRow>,
    /// Sequence number of the start of the stream.
    origin: u32,
    /// End of the data sent, from the start of the stream.
    sent_until: u64,
    /// Names shared by all rows; run and flow are set when the rows are written.
    names: Vec<(&'static str, Name)>,
}

impl EventLog {
    /// Logs a segment sent.
    pub(crate) fn sent(&mut self, now: Time, segment: &Segment, host: &Endpoint) {
        if segment.flags.has(Flags::SYN) {
            self.origin = segment.seq.wrapping_add(1);
        }
        if segment.len == 0 {
            return;
        }
        let sequence = self.position(segment.seq);
        let event = if sequence < self.sent_until { "retransmitted" } else { "sent" };
        self.sent_until = self.sent_until.max(sequence + u64::from(segment.len));
        self.push(now, event, (sequence, u32::from(segment.len)), None, host);
    }

    /// Logs an ACK, with the round-trip sample it gave.
    pub(crate) fn acknowledged(&mut self, now: Time, header: &Header, rtt: Option<Time>, host: &Endpoint) {
        if header.flags.has(Flags::ACK) && !header.flags.has(Flags::SYN) {
            self.push(now, "ack", (self.position(header.ack), 0), rtt, host);
        }
    }

    /// Logs an expired timer.
    pub(crate) fn timer(&mut self, now: Time, host: &Endpoint) {
        self.push(now, "timer", (host.acked(), 0), None, host);
    }

    pub(crate) fn into_rows(self) -> Vec<EventRow> {
        self.rows
    }

    /// The stream position of a sequence number: the one nearest to the data sent.
    fn position(&self, sequence: u32) -> u64 {
        nearest_position(sequence.wrapping_sub(self.origin), self.sent_until).unwrap_or(0)
    }

    fn push(
        &mut self,
        now: Time,
        event: &'static str,
        (sequence, segment_bytes): (u64, u32),
        rtt: Option<Time>,
        host: &Endpoint,
    ) {
        let info = host.info();
        let (flow, event, ca_state) = (self.name(""), self.name(event), self.name(info.ca_state.as_str()));
        self.rows.push(EventRow {
            run: 0,
            flow,
            leg: None,
            t_s: now.as_secs_f64(),
            event,
            sequence,
            segment_bytes,
            cwnd_packets: info.cwnd,
            ssthresh_packets: info.ssthresh,
            inflight_packets: info.inflight,
            sacked_packets: info.sacked_out,
            lost_packets: info.lost_out,
            clamp_packets: info.cwnd_clamp,
            snd_nxt_bytes: info.snd_nxt,
            rtt_ms: rtt.map(Time::as_millis_f64),
            srtt_ms: (info.srtt > Time::ZERO).then(|| info.srtt.as_millis_f64()),
            rttvar_ms: (info.srtt > Time::ZERO).then(|| info.rtt_deviation.as_millis_f64()),
            rto_ms: info.rto.as_millis_f64(),
            receive_window_bytes: u64::from(info.peer_window),
            ca_state,
            pacing_mbps: info.pacing_rate_bps.map(|bps| bps as f64 / 1e6),
        });
    }

    fn name(&mut self, text: &'static str) -> Name {
        if let Some((_, name)) = self.names.iter().find(|(known, _)| *known == text) {
            return name.clone();
        }
        let name: Name = text.into();
        self.names.push((text, name.clone()));
        name
    }
}
