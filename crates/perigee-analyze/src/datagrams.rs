//! One flow of a capture: datagrams of UDP that go one way.

use perigee_results::{FlowId, Meter, Name, QuicRow, SenderCounts, SenderState, SeriesRow};
use perigee_units::Time;

use crate::quic::{spin_bit, SpinTurns, VERSIONS};
use crate::survey::ConnectionSummary;

/// The amount of data that a flow of UDP carries.
pub(crate) struct Datagrams {
    pub(crate) name: Name,
    pub(crate) run: u32,
    pub(crate) way: usize,
    pub(crate) until: Time,
    pub(crate) meter: Meter,
    bytes: u64,
    packets: u64,
    last: Option<Time>,
    /// Longest time between two datagrams, and when it began.
    pause: Option<(Time, Time)>,
    /// Round trips by the spin bit, of a direction of QUIC in which it spins, and how many.
    turns: Option<SpinTurns>,
    spin_turns: u64,
    told: bool,
}

impl Datagrams {
    pub(crate) fn new(name: Name, run: u32, way: usize, until: Time, meter: Meter, spins: bool) -> Self {
        Self {
            name,
            run,
            way,
            until,
            last: None,
            pause: None,
            turns: spins.then(SpinTurns::default),
            spin_turns: 0,
            meter,
            bytes: 0,
            packets: 0,
            told: false,
        }
    }

    /// Takes a datagram with its first four bytes.
    pub(crate) fn packet(&mut self, now: Time, payload: u32, first_bytes: Option<u32>) {
        if let (Some(turns), Some(bit)) = (&mut self.turns, first_bytes.and_then(spin_bit))
            && let Some(round_trip) = turns.see(now, bit)
        {
            self.meter.round_trip(round_trip);
            self.spin_turns += 1;
        }
        if let Some(last) = self.last
            && let Some(pause) = now.checked_sub(last)
            && self.pause.is_none_or(|(longest, _)| pause > longest)
        {
            self.pause = Some((pause, last));
        }
        self.bytes += u64::from(payload);
        self.packets += 1;
        self.last = Some(now);
        if self.meter.deliver(now, self.bytes, self.bytes) {
            let sent = self.sent();
            self.meter.record_progress(now, sent);
        }
    }

    pub(crate) fn series_row(&mut self, now: Time) -> Option<SeriesRow> {
        if self.told || now <= self.meter.start() {
            return None;
        }
        if now > self.until {
            self.finish();
        }
        self.told = self.meter.end().is_some();
        let state = SenderState { acked_bytes: self.bytes, ..SenderState::default() };
        self.meter.series_row(now, FlowId { run: self.run, flow: &self.name, leg: None }, self.sent(), state)
    }

    pub(crate) fn finish(&mut self) {
        if self.meter.end().is_none() {
            self.meter.finish(self.last.unwrap_or(self.meter.start()));
        }
    }

    /// Its row of what QUIC shows from outside.
    pub(crate) fn quic_row(&self, summary: &ConnectionSummary, version: usize, capture: &str) -> QuicRow {
        let opening = &summary.opening;
        let opened = opening.way == Some(self.way);
        let ms = |time: Option<Time>| time.map(Time::as_millis_f64);
        let (to_opener, to_other) = (ms(opening.to_opener()), ms(opening.to_responder()));
        let own = &summary.ways[self.way];
        QuicRow {
            run: self.run,
            flow: self.name.clone(),
            capture: capture.into(),
            version: VERSIONS[version].1.into(),
            opened_by: if opened { "from" } else { "to" }.into(),
            has_retry: summary.has_retry,
            handshake_from_ms: if opened { to_opener } else { to_other },
            handshake_to_ms: if opened { to_other } else { to_opener },
            spin_bit: own.spin.use_().as_str().into(),
            spin_turns: self.spin_turns,
            largest_datagram_bytes: own.largest,
            longest_pause_s: self.pause.map(|(pause, _)| pause.as_secs_f64()),
            longest_pause_from_s: self.pause.map(|(_, from)| from.as_secs_f64()),
        }
    }

    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    pub(crate) fn sent(&self) -> SenderCounts {
        SenderCounts { packets: Some(self.packets), retransmitted: None }
    }
}
