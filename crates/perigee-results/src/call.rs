//! Measures video calls: frames that arrive whole and in time, and freezes of the picture.
//!
//! A frame is shown if all of its packets arrive within a deadline. A freeze is defined as in WebRTC's statistics (W3C,
//! `freezeCount`): two successive frames shown are at least max(3 d, d + 150 ms) apart, with d the mean interval of frames, here
//! the one at which they are sent.

use perigee_units::{encode_struct, Time};

use crate::voice::Jitter;
use crate::{CallRow, FlowId, Tables};

/// The frames of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Frames per second; at least one.
    pub per_second: u32,
    /// Packets of a frame.
    pub packets: u16,
    /// Maximum delay of a frame, from sending to its last packet.
    pub deadline: Time,
    /// Frames sent within this time after the start of the flow are not counted.
    pub warmup: Time,
}

/// The measurements of one direction of a call.
#[derive(Clone, Debug)]
pub struct CallMeter {
    frames: Frames,
    /// For each frame: the number of packets that have arrived, and whether it was whole in time.
    arrived: Vec<(u16, bool)>,
    whole: u64,
    delay_sum_ns: u128,
    delay_max: Time,
    jitter: Jitter,
}

impl Frames {
    /// When a frame is sent, since the beginning of the flow.
    pub fn instant(&self, number: u64) -> Time {
        Time::from_nanos(number.saturating_mul(1_000_000_000) / u64::from(self.per_second.max(1)))
    }

    /// The first frame that is counted.
    fn first(&self) -> u64 {
        let nanos = u128::from(self.warmup.as_nanos()) * u128::from(self.per_second);
        u64::try_from(nanos.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
    }

    /// The frame of a packet.
    fn of(&self, packet: u32) -> u64 {
        u64::from(packet) / u64::from(self.packets.max(1))
    }

    /// The shortest time between two frames that is a freeze.
    fn freeze_s(&self) -> f64 {
        let interval = 1.0 / f64::from(self.per_second.max(1));
        (3.0 * interval).max(interval + FREEZE_S)
    }
}

impl CallMeter {
    /// The measurements of a flow.
    pub fn new(frames: Frames) -> Self {
        let (delay_max, jitter) = (Time::ZERO, Jitter::default());
        Self { frames, arrived: Vec::new(), whole: 0, delay_sum_ns: 0, delay_max, jitter }
    }

    /// Counts packet `number`, which is sent.
    pub fn send(&mut self, number: u32) {
        self.frame(number);
    }

    /// Packet `number` arrives, `delay` after it was sent.
    pub fn deliver(&mut self, number: u32, delay: Time) {
        let Frames { packets, deadline, .. } = self.frames;
        let is_counted = self.frames.of(number) >= self.frames.first();
        let (arrived, on_time) = self.frame(number);
        *arrived = arrived.saturating_add(1);
        if *arrived != packets {
            return;
        }
        *on_time = delay <= deadline;
        if is_counted {
            self.whole += 1;
            self.delay_sum_ns += u128::from(delay.as_nanos());
            self.delay_max = self.delay_max.max(delay);
            self.jitter.add(delay);
        }
    }

    /// The frame of packet `number`. In an emulated run a packet may be seen to arrive before it is counted as sent.
    fn frame(&mut self, number: u32) -> &mut (u16, bool) {
        let frame = self.frames.of(number) as usize;
        if self.arrived.len() <= frame {
            self.arrived.resize(frame + 1, (0, false));
        }
        &mut self.arrived[frame]
    }

    /// Number and total length, s, of freezes between frames shown, from the first frame to the end.
    fn freezes(&self, counted: &[(u16, bool)]) -> (u32, f64) {
        let seen = (0..).zip(counted).filter(|(_, (_, on_time))| *on_time).map(|(number, _)| number);
        let (mut freezes, mut frozen_s, mut before) = (0, 0.0, 0_usize);
        for number in seen.chain([counted.len()]) {
            let gap_s = (number - before) as f64 / f64::from(self.frames.per_second.max(1));
            // Frames lie at whole numbers of intervals, so that rounding must not put a gap below the limit.
            if gap_s > self.frames.freeze_s() - 1e-9 {
                freezes += 1;
                frozen_s += gap_s;
            }
            before = number;
        }
        (freezes, frozen_s)
    }

    /// Adds the row of the flow.
    pub fn write(&self, id: FlowId<'_>, tables: &mut Tables) {
        let first = usize::try_from(self.frames.first()).unwrap_or(usize::MAX);
        let counted = self.arrived.get(first..).unwrap_or_default();
        let (frames, on_time) = (counted.len() as u64, counted.iter().filter(|(_, on_time)| *on_time).count() as u64);
        let (freezes, frozen_s) = self.freezes(counted);
        let length_s = frames as f64 / f64::from(self.frames.per_second.max(1));
        tables.calls.push(CallRow {
            run: id.run,
            flow: id.flow.clone(),
            frames,
            whole_frames: self.whole,
            on_time_frames: on_time,
            on_time_percent: (frames > 0).then(|| 100.0 * on_time as f64 / frames as f64),
            delay_mean_ms: (self.whole > 0).then(|| self.delay_sum_ns as f64 / self.whole as f64 / 1e6),
            delay_max_ms: (self.whole > 0).then(|| self.delay_max.as_millis_f64()),
            jitter_mean_ms: self.jitter.mean_ms(),
            jitter_max_ms: self.jitter.max_ms(),
            freezes,
            frozen_s,
            frozen_percent: (frames > 0).then(|| 100.0 * frozen_s / length_s),
        });
    }
}

/// Minimum length of a freeze beyond an interval of frames, s.
const FREEZE_S: f64 = 0.15;

encode_struct!(Frames { per_second, packets, deadline, warmup });

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    fn frames(warmup: Time) -> Frames {
        Frames { per_second: 20, packets: 2, deadline: MS(150), warmup }
    }

    /// The row of a call of frames of two packets at 20 per second, by the delay of their second packet.
    fn row(frames: Frames, delays: &[Option<u64>]) -> CallRow {
        let mut meter = CallMeter::new(frames);
        for (number, delay) in (0..).zip(delays) {
            meter.send(2 * number);
            meter.send(2 * number + 1);
            meter.deliver(2 * number, MS(10));
            if let Some(delay) = delay {
                meter.deliver(2 * number + 1, MS(*delay));
            }
        }
        let mut tables = Tables::default();
        meter.write(FlowId { run: 0, flow: &"call".into(), leg: None }, &mut tables);
        let calls = tables.calls;
        CallRow {
            frames: calls.frames[0],
            whole_frames: calls.whole_frames[0],
            on_time_frames: calls.on_time_frames[0],
            on_time_percent: calls.on_time_percent[0],
            delay_mean_ms: calls.delay_mean_ms[0],
            delay_max_ms: calls.delay_max_ms[0],
            freezes: calls.freezes[0],
            frozen_s: calls.frozen_s[0],
            frozen_percent: calls.frozen_percent[0],
            ..CallRow::default()
        }
    }

    #[test]
    fn a_frame_is_seen_where_its_last_packet_is_in_time() {
        let row = row(frames(Time::ZERO), &[Some(100), Some(150), Some(151), None]);
        assert_eq!((row.frames, row.whole_frames, row.on_time_frames), (4, 3, 2));
        assert_eq!((row.on_time_percent, row.delay_max_ms), (Some(50.0), Some(151.0)));
        assert!((row.delay_mean_ms.unwrap() - 401.0 / 3.0).abs() < 1e-9);
        assert_eq!((row.freezes, row.frozen_s), (0, 0.0), "three intervals of 50 ms are shorter than 200 ms");
    }

    #[test]
    fn a_picture_that_stands_still_for_an_interval_and_150_ms_is_frozen() {
        let (seen, not) = (Some(100), None);
        let short = row(frames(Time::ZERO), &[seen, not, not, seen, seen, not, not, seen]);
        assert_eq!((short.freezes, short.frozen_s), (0, 0.0));
        let long = row(frames(Time::ZERO), &[seen, not, not, not, seen, not, not, not, not, seen]);
        assert_eq!(long.freezes, 2);
        assert!((long.frozen_s - 0.45).abs() < 1e-9, "{}", long.frozen_s);
    }

    #[test]
    fn a_call_that_nobody_sees_is_frozen_from_its_beginning_to_its_end() {
        let row = row(frames(MS(90)), &[Some(100); 2].iter().copied().chain([Some(400); 8]).collect::<Vec<_>>());
        assert_eq!((row.frames, row.whole_frames, row.on_time_frames), (8, 8, 0), "two are of the warm-up");
        assert_eq!((row.freezes, row.frozen_percent), (1, Some(100.0)));
    }
}
