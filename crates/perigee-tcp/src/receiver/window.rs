//! The advertised window and its autotuning (Linux's dynamic right-sizing; Fisk and Feng 2001).

use perigee_units::{Bytes, Time};

use perigee_settings::{measured_share, Config, ReceiveGrowth, WindowShare, SHARE_SHIFT};

/// The advertised window. Its right edge never moves back.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    buffer: u64,
    buffer_max: u64,
    autotuning: bool,
    /// Announced MSS; after the handshake, without the options of each segment.
    mss: u64,
    /// Maximum window that the buffer allows.
    clamp: u64,
    /// Current limit of the window; grows as data arrive (Linux's `rcv_ssthresh`).
    threshold: u64,
    /// Threshold above which `threshold` stops growing.
    growth_ends: u64,
    segment_memory: u64,
    /// Window granted last, counted from `acknowledged`.
    window: u64,
    /// `window` as the header has it, in bytes. It may be rounded down, which takes nothing back.
    advertised: u32,
    /// Highest acknowledged position.
    acknowledged: u64,
    /// Smoothed round-trip time at the receiver, us.
    rtt_us: u64,
    /// Timestamp echo of the latest sample; [`NO_ECHO`] before the first.
    pub(crate) last_echo: u64,
    /// The window in flight, which also yields round-trip samples.
    pub(crate) arriving: ArrivingWindow,
    sack: bool,
    /// Data read in the last round, and the start of this one.
    round: Round,
    /// Instant and end of the latest in-order data, without what waited behind a gap that they fill, which the application reads after that
    /// instant; with reading on demand, instant and end of the latest read. [`Time::MAX`] if nothing was read.
    unread: (Time, u64),
    /// End of the in-order data.
    arrived: u64,
    /// Share of the buffer available as window, in 1/256 (Linux's `scaling_ratio`).
    share: u64,
    sharing: WindowShare,
    growth: ReceiveGrowth,
    /// Most segments of the first window.
    first_segments: u64,
    /// Largest payload measured so far, initially Linux's first estimate (`rcv_mss`); a larger segment updates the share. `u64::MAX`
    /// disables measurement.
    pub(crate) measured: u64,
    /// The application decides when to read.
    on_demand: bool,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    space: u64,
    start: u64,
    at: Time,
}

/// A window that was advertised. Its arrival takes at least one round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivingWindow {
    /// Position of its right edge.
    pub(crate) end: u64,
    /// Start of its arrival; [`Time::MAX`] before the first data.
    since: Time,
}

impl ReceiveWindow {
    pub(super) fn new(config: &Config) -> Self {
        let [_, initial, max] = config.rmem.map(Bytes::as_u64);
        let mss = u64::from(config.mss);
        let share = config.window_share.fixed().unwrap_or(FIRST_SHARE);
        let clamp = (initial * share) >> SHARE_SHIFT;
        let first_segments = u64::from(config.first_receive_window);
        let window = first_window(clamp, mss, first_segments);
        Self {
            buffer: initial,
            buffer_max: max,
            autotuning: config.receive_autotuning,
            mss,
            clamp,
            threshold: clamp.min(window),
            growth_ends: growth_ends(config),
            segment_memory: config.segment_memory.as_u64(),
            window,
            advertised: 0,
            acknowledged: 0,
            rtt_us: 0,
            last_echo: NO_ECHO,
            arriving: ArrivingWindow { end: 0, since: Time::MAX },
            sack: config.sack,
            round: Round { space: 1, start: 1, at: Time::ZERO },
            unread: (Time::MAX, 0),
            arrived: 1,
            share,
            sharing: config.window_share,
            growth: config.receive_growth,
            first_segments,
            measured: if config.window_share == WindowShare::Measured { FIRST_SEGMENT } else { u64::MAX },
            on_demand: false,
        }
    }

    /// A listening endpoint received a SYN: its first window counts segments without their options (`tcp_openreq_init_rwin`).
    pub(super) fn on_request(&mut self, options: u64) {
        self.window = first_window(self.clamp, self.mss.saturating_sub(options).max(1), self.first_segments);
        self.threshold = self.clamp.min(self.window);
    }

    pub(super) fn set_sack(&mut self, on: bool) {
        self.sack = on;
    }

    /// The handshake completed: starts the first round of autotuning. Options reduce the payload of each segment, and one segment stays in
    /// reserve until the buffer grows (`tcp_init_buffer_space`).
    pub(super) fn begin(&mut self, now: Time, options: u64, opened: bool) {
        let payload = self.mss.saturating_sub(options).max(1);
        if opened {
            self.mss = payload;
        }
        if self.clamp > 2 * self.mss {
            self.clamp = (self.clamp - self.mss).max(2 * self.mss);
        }
        self.threshold = self.threshold.min(self.clamp);
        self.round.space = self.threshold.min(self.window).min(INITIAL_SEGMENTS * self.mss).max(1);
        self.round.at = now;
        self.mss = payload;
    }

    /// The application will report its reads through [`ReceiveWindow::on_read_until`].
    pub(super) fn read_on_demand(&mut self) {
        self.on_demand = true;
    }

    /// The application has read up to `position`.
    pub(super) fn on_read_until(&mut self, now: Time, position: u64) {
        self.unread = (now, position);
    }

    /// Whether reading has opened the window enough to send a window update (`tcp_cleanup_rbuf`): to twice what is left of it, unless half
    /// of the largest window is left. The buffer holds `held_bytes`.
    pub(super) fn has_opened_much(&self, next: u64, held_bytes: u64) -> bool {
        let left = self.right_edge().saturating_sub(next);
        let free = self.free(held_bytes);
        2 * left <= self.clamp && free > 0 && free >= 2 * left
    }

    /// Memory used by payload in the buffer, which is usually empty.
    #[inline]
    fn memory_of(&self, held_bytes: u64) -> u64 {
        match held_bytes {
            0 => 0,
            bytes => bytes * self.segment_memory / self.mss,
        }
    }

    /// Memory used by a segment with this payload. A segment bounded by a small window uses less than a full one.
    #[inline]
    fn memory_of_segment(&self, payload: u64) -> u64 {
        if payload >= self.mss {
            return self.segment_memory;
        }
        (payload * self.segment_memory / self.mss).max(LEAST_MEMORY).min(self.segment_memory)
    }

    /// Window for which the buffer has space.
    #[inline]
    fn free(&self, held_bytes: u64) -> u64 {
        if held_bytes == 0 {
            // An empty buffer has space for its maximum window.
            return self.clamp.min(self.threshold);
        }
        let held = self.memory_of(held_bytes);
        let space = self.window_of(self.buffer.saturating_sub(held));
        if self.on_demand && self.is_almost_full(space) {
            return 0;
        }
        space.min(self.clamp).min(self.threshold)
    }

    /// Whether so little space is left that the window closes, which avoids segments below the full size (`__tcp_select_window`).
    #[cold]
    fn is_almost_full(&self, space: u64) -> bool {
        let whole = self.clamp.min(self.window_of(self.buffer));
        space < self.mss.min(whole).max(whole >> 4)
    }

    /// Window granted last, bytes.
    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.window
    }

    /// Window of the last header, bytes.
    #[inline]
    pub(super) fn advertised(&self) -> u32 {
        self.advertised
    }

    /// Highest acknowledged position.
    #[inline]
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    #[inline]
    pub(super) fn on_ack_sent(&mut self, next: u64) {
        self.acknowledged = next;
    }

    /// Smoothed round-trip time at the receiver, us; 0 before the first sample.
    #[inline]
    pub(super) fn rtt_us(&self) -> u64 {
        self.rtt_us
    }

    pub(crate) fn right_edge(&self) -> u64 {
        self.acknowledged + self.window
    }

    /// Computes the window to advertise; of the bytes that the buffer holds, `unread` are in order. The right edge never moves back
    /// (RFC 9293, section 3.8.6).
    #[inline(always)]
    pub(super) fn advertise(&mut self, next: u64, (held_bytes, unread): (u64, u64), scale: u8) -> u32 {
        let least = self.right_edge().saturating_sub(next);
        let free = self.free(held_bytes);
        let units = (free.max(least) + (1 << scale) - 1) >> scale;
        self.window = (units << scale).min(MAX_UNSCALED_WINDOW << scale);
        self.advertised = self.window as u32;
        if unread > 0 && free < least && unread + self.window > self.buffer {
            self.keep_edge(least, scale);
        }
        self.acknowledged = next;
        self.advertised
    }

    /// Keeps the right edge where it is, and rounds the window down: a window rounded up would grant room that the buffer lacks, with each
    /// ACK once more. Linux rounds up, and drops what exceeds the buffer.
    #[cold]
    fn keep_edge(&mut self, least: u64, scale: u8) {
        self.window = least;
        self.advertised = ((least >> scale) << scale) as u32;
    }

    fn window_of(&self, buffer: u64) -> u64 {
        (buffer * self.share) >> SHARE_SHIFT
    }

    /// Whether a segment is full-sized, given that the sender also bounds it to half of the window.
    #[inline(always)]
    fn is_full(&self, payload: u64) -> bool {
        let most = payload + OPTION_BYTES;
        most >= self.mss || most >= self.window / 2
    }

    /// Updates the payload share of memory for a segment larger than all before; the window follows immediately (`tcp_measure_rcv_mss`).
    #[cold]
    fn measure_share(&mut self, payload: u64) {
        self.measured = payload;
        self.share = measured_share(payload, self.memory_of_segment(payload));
        self.clamp = self.window_of(self.buffer);
        self.threshold = self.threshold.max(self.window.min(self.clamp));
        self.round.space = self.round.space.min(self.clamp);
    }

    /// Takes a round-trip sample, the age of a newly echoed timestamp, from a segment with this `payload`.
    #[inline(always)]
    pub(super) fn on_segment(&mut self, payload: u16, echo: u32, echo_age_us: Option<u32>) {
        if u64::from(payload) > self.measured {
            self.measure_share(u64::from(payload));
        }
        let Some(age) = echo_age_us else { return };
        if u64::from(echo) == self.last_echo || !self.is_full(u64::from(payload)) {
            return;
        }
        self.last_echo = u64::from(echo);
        let sample = u64::from(age.max(1000));
        // A smaller sample replaces the estimate; larger ones are smoothed.
        let first_or_least = self.rtt_us == 0 || sample < self.rtt_us;
        self.rtt_us = if first_or_least { sample } else { self.rtt_us - (self.rtt_us >> 3) + (sample >> 3) };
    }

    /// Opens the window by two segments for each that arrives, or by twice its payload if several were aggregated; returns whether the
    /// window grew. `STEADY`: the segment [is](super::Receiver::is_steady).
    #[inline(always)]
    pub(super) fn grow<const STEADY: bool>(
        &mut self,
        now: Time,
        next: u64,
        (held_bytes, payload): (u64, u64),
        newest: Option<u64>,
    ) -> bool {
        // Since Linux 6.16 the buffer also grows for data behind a gap.
        let modern = self.sharing == WindowShare::Measured;
        let behind_gap = newest.filter(|_| modern).map_or(0, |newest| newest.saturating_sub(next));
        // The application reads after all arrivals of the same instant.
        let (at, read) = self.unread;
        if !STEADY && at < now {
            self.unread.0 = Time::MAX;
            self.on_read(at, read, behind_gap);
        }
        let mut held = self.memory_of(held_bytes);
        // Without SACK, an ACK behind a gap must be a duplicate, and an ACK that changes the window is none (RFC 5681, section 2).
        let keeps_window = newest.is_some() && next == self.arrived && !self.sack;
        if next > self.arrived {
            // The segment that fills a gap is read first, what waited behind it after the check whether a round has ended.
            let first = next.min(self.arrived + payload);
            self.arrived = next;
            if !STEADY && next >= self.arriving.end {
                self.on_window_arrived(now, next);
            }
            if !self.on_demand {
                self.unread = (now, first);
            }
            held += if modern { self.memory_of_segment(payload) } else { 0 };
        }
        let most = self.clamp.min(self.window_of(self.buffer.saturating_sub(held)));
        let room =
            if keeps_window || self.threshold > self.growth_ends { 0 } else { most.saturating_sub(self.threshold) };
        self.threshold += room.min(2 * self.mss.max(payload));
        if behind_gap > 0 && self.autotuning {
            self.enlarge(u128::from(2 * self.round.space + behind_gap));
        }
        room > 0
    }

    /// A whole advertised window has arrived, and in-order data end at `next`. The time it took is at least one round trip, and much more
    /// if the window is not the sender's limit, so only smaller samples count, without smoothing (`tcp_rcv_rtt_measure`).
    #[inline(never)]
    fn on_window_arrived(&mut self, now: Time, next: u64) {
        if self.arriving.since < Time::MAX {
            let sample = ((now - self.arriving.since).as_nanos() / 1000).max(1);
            self.rtt_us = if self.rtt_us == 0 { sample } else { self.rtt_us.min(sample) };
        }
        self.arriving = ArrivingWindow { end: next + self.window, since: now };
    }

    /// The application has read up to `next`. Once per round trip the buffer is sized for twice the data read, which covers a loss, plus
    /// twice their growth, which stays ahead of slow start, plus the data behind a gap. Since Linux 6.16 what still waits to be read counts
    /// against what was read.
    #[inline]
    fn on_read(&mut self, now: Time, next: u64, behind_gap: u64) {
        if self.is_round_over(now) {
            self.end_round(now, next, behind_gap);
        }
    }

    #[inline]
    pub(crate) fn is_round_over(&self, now: Time) -> bool {
        self.rtt_us > 0 && (now - self.round.at).as_nanos() >= self.rtt_us * 1000
    }

    #[inline(never)]
    fn end_round(&mut self, now: Time, next: u64, behind_gap: u64) {
        match self.growth {
            ReceiveGrowth::Ahead => self.stay_ahead(next, behind_gap),
            ReceiveGrowth::Twice => self.double_what_was_read(next),
        }
        self.round.start = next;
        self.round.at = now;
    }

    /// Linux before 3.13: the window is twice what was read in the round trip, whatever share of the buffer that is.
    fn double_what_was_read(&mut self, next: u64) {
        let window = 2 * (next - self.round.start);
        if window <= self.round.space {
            return;
        }
        self.round.space = window;
        let before = self.buffer;
        if self.autotuning {
            self.enlarge(u128::from(window));
        }
        if self.buffer > before {
            self.clamp = window;
        }
    }

    fn stay_ahead(&mut self, next: u64, behind_gap: u64) {
        let (waiting, reserve) = match self.sharing {
            // A receiver that hides a loss reads ahead of what has arrived.
            WindowShare::Measured => (self.arrived.saturating_sub(next), 0),
            _ => (0, 16 * self.mss),
        };
        let copied = (next - self.round.start).saturating_sub(waiting);
        if copied > self.round.space {
            if self.autotuning {
                let base = 2 * copied + reserve;
                let grown = u128::from(base) * u128::from(copied - self.round.space) / u128::from(self.round.space);
                self.enlarge(u128::from(base + behind_gap) + 2 * grown);
            }
            self.round.space = copied;
        }
    }

    /// Grows the buffer to hold a window of `window` bytes, within its maximum.
    #[inline(never)]
    fn enlarge(&mut self, window: u128) {
        let buffer = match self.sharing {
            WindowShare::Measured => (window << SHARE_SHIFT) / u128::from(self.share),
            _ => window / u128::from(self.mss) * u128::from(buffer_per_segment(self.mss, self.share)),
        };
        let buffer = u64::try_from(buffer).unwrap_or(u64::MAX).min(self.buffer_max);
        if buffer > self.buffer {
            self.buffer = buffer;
            self.clamp = self.window_of(buffer);
        }
    }
}

/// Buffer bytes per segment of window.
fn buffer_per_segment(payload: u64, share: u64) -> u64 {
    let least = payload + SEGMENT_OVERHEAD;
    least + (payload << SHARE_SHIFT).div_ceil(share).saturating_sub(least).next_multiple_of(SEGMENT_STEP)
}

/// Unscaled window of a SYN: whole segments (`tcp_select_initial_window`).
fn first_window(clamp: u64, segment: u64, most_segments: u64) -> u64 {
    let space = clamp.min(MAX_UNSCALED_WINDOW).min(segment.saturating_mul(most_segments));
    if space > segment {
        space - space % segment
    } else {
        space
    }
}

/// Window size at which growth stops although the buffer has space (see [`Config::largest_window`]).
fn growth_ends(config: &Config) -> u64 {
    match config.window_share.fixed() {
        Some(share) if (config.segment_memory.as_u64() * share) >> SHARE_SHIFT > u64::from(config.mss) => {
            config.largest_window().as_u64()
        }
        _ => u64::MAX,
    }
}

/// Window scale that fits the largest possible buffer into 16 bits, including sizes that an application may set
/// (`tcp_select_initial_window`).
pub(crate) fn window_scale(config: &Config) -> u8 {
    let settable = match config.window_share {
        WindowShare::Measured => RMEM_MAX,
        _ => RMEM_MAX_BEFORE,
    };
    let mut space = config.rmem[2].as_u64().max(settable);
    let mut scale = 0;
    while space > MAX_UNSCALED_WINDOW && scale < 14 {
        space >>= 1;
        scale += 1;
    }
    scale
}

/// A share before it is measured: half (`TCP_DEFAULT_SCALING_RATIO`).
const FIRST_SHARE: u64 = 1 << (SHARE_SHIFT - 1);
/// Linux's memory per segment beyond its payload: header room (256; 320 with wireless drivers built in) and bookkeeping (576). It grows in
/// steps of 128 until the payload fits into the window's share of the total.
const SEGMENT_OVERHEAD: u64 = 256 + 576;
const SEGMENT_STEP: u64 = 128;
/// Maximum option bytes of a full data segment.
const OPTION_BYTES: u64 = 40;
const MAX_UNSCALED_WINDOW: u64 = 65_535;
/// Not a timestamp, which has 32 bits.
const NO_ECHO: u64 = u64::MAX;
const INITIAL_SEGMENTS: u64 = 10;
/// Memory of a small received packet: 2 KiB from the driver, and bookkeeping.
const LEAST_MEMORY: u64 = 2304;
/// Linux's initial estimate of the segment size (`TCP_MSS_DEFAULT`).
const FIRST_SEGMENT: u64 = 536;
/// Defaults of Linux's `net.core.rmem_max`: 6.18, and older versions.
const RMEM_MAX: u64 = 4 << 20;
const RMEM_MAX_BEFORE: u64 = 212_992;

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_settings::System;

    #[test]
    fn what_waited_behind_a_gap_is_read_in_the_round_that_begins_as_the_gap_closes() {
        const SEGMENT: u64 = 1448;
        let mut window = ReceiveWindow::new(&Config::default());
        window.begin(Time::ZERO, 12, false);
        window.on_segment(SEGMENT as u16, 1, Some(100_000));
        let mut next = 1;
        // At 200 ms, a round trip and more after the round began, 100 segments come out of a gap.
        for (ms, segments) in [(50, 1), (200, 101), (250, 1), (310, 1), (360, 1)] {
            next += segments * SEGMENT;
            window.grow::<false>(Time::from_millis(ms), next, (0, SEGMENT), None);
        }
        // The segment that closed the gap ended the round, without a count: a hundred others waited. In the next one
        // these and two more were read.
        assert_eq!(window.round.space, 102 * SEGMENT);
    }

    #[test]
    fn what_is_read_ahead_of_the_arrivals_counts_as_read() {
        const SEGMENT: u64 = 1448;
        let mut window = ReceiveWindow::new(&Config::default());
        window.read_on_demand();
        window.begin(Time::ZERO, 12, false);
        window.on_segment(SEGMENT as u16, 1, Some(100_000));
        window.grow::<false>(Time::from_millis(50), 1 + SEGMENT, (0, SEGMENT), None);
        // The receiver hides the loss of 30 segments, and its application reads what came behind them.
        window.on_read_until(Time::from_millis(200), 1 + 40 * SEGMENT);
        window.grow::<false>(Time::from_millis(250), 1 + 41 * SEGMENT, (0, SEGMENT), None);
        assert_eq!(window.round.space, 40 * SEGMENT);
    }

    #[test]
    fn linux_2_6_20_begins_with_four_segments_and_grows_to_twice_what_was_read() {
        const SEGMENT: u64 = 1448;
        let config = System::named("linux-2.6.20").unwrap().config();
        let mut window = ReceiveWindow::new(&config);
        assert_eq!(window.size(), 5840);
        window.on_request(12);
        window.begin(Time::ZERO, 12, false);
        assert_eq!(window.threshold, 4 * SEGMENT);
        window.on_segment(SEGMENT as u16, 1, Some(100_000));
        let mut next = 1;
        let mut arrive = |window: &mut ReceiveWindow, ms, segments| {
            for _ in 0..segments {
                next += SEGMENT;
                window.grow::<false>(Time::from_millis(ms), next, (0, SEGMENT), None);
            }
        };
        arrive(&mut window, 10, 10);
        assert_eq!(window.threshold, 24 * SEGMENT, "two more for each full segment");
        arrive(&mut window, 20, 60);
        assert_eq!(window.threshold, window.clamp, "the buffer's share bounds it");
        assert!((60_000..65_536).contains(&window.clamp), "{}", window.clamp);
        // The first ten ended a round.
        for (read, clamp) in [(70, 120), (270, 400), (280, 400)] {
            window.end_round(Time::from_secs(read), 1 + read * SEGMENT, 0);
            assert_eq!(window.clamp, clamp * SEGMENT, "twice the most of 60, 200 and 10 segments");
        }
    }
}
