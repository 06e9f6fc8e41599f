//! The event log of a TCP sender: a row per data segment sent, ACK and timeout.

use perigee_results::{EventRow, Name};
use perigee_tcp::Endpoint;
use perigee_units::Time;

#[derive(Default)]
pub(crate) struct EventLog {
    rows: Vec<EventRow>,
    /// Names shared by all rows; run and flow are set when the rows are written.
    names: Vec<(&'static str, Name)>,
}

/// Data that leave.
#[derive(Clone, Copy)]
pub(crate) struct Data {
    /// Their position in the stream.
    pub(crate) position: u64,
    /// Data at this position were sent before.
    pub(crate) is_repeated: bool,
}

impl EventLog {
    /// Logs a segment with the data at a position, which are `bytes` long and perhaps sent before.
    pub(crate) fn sent(&mut self, now: Time, Data { position, is_repeated }: Data, bytes: u16, host: &Endpoint) {
        let event = if is_repeated { "retransmitted" } else { "sent" };
        self.push(now, event, (position, u32::from(bytes)), None, host);
    }

    /// Logs an ACK of all data before a position, with the round-trip sample it gave.
    pub(crate) fn acknowledged(&mut self, now: Time, position: u64, rtt: Option<Time>, host: &Endpoint) {
        self.push(now, "ack", (position, 0), rtt, host);
    }

    pub(crate) fn timer(&mut self, now: Time, host: &Endpoint) {
        self.push(now, "timer", (host.acked(), 0), None, host);
    }

    pub(crate) fn into_rows(self) -> Vec<EventRow> {
        self.rows
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
