//! One flow of a capture: datagrams of UDP that go one way.

use perigee_results::{FlowId, Meter, Name, SenderCounts, SenderState, SeriesRow};
use perigee_units::Time;

/// The amount of data that a flow of UDP carries.
pub(crate) struct Datagrams {
    pub(crate) name: Name,
    pub(crate) run: u32,
    pub(crate) way: usize,
    pub(crate) until: Time,
    pub(crate) meter: Meter,
    bytes: u64,
    packets: u64,
    last: Time,
    told: bool,
}

impl Datagrams {
    pub(crate) fn new(name: Name, run: u32, way: usize, until: Time, meter: Meter) -> Self {
        Self { name, run, way, until, last: meter.start(), meter, bytes: 0, packets: 0, told: false }
    }

    pub(crate) fn packet(&mut self, now: Time, payload: u32) {
        self.bytes += u64::from(payload);
        self.packets += 1;
        self.last = now;
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
            self.meter.finish(self.last);
        }
    }

    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    pub(crate) fn sent(&self) -> SenderCounts {
        SenderCounts { packets: Some(self.packets), retransmitted: None }
    }
}
