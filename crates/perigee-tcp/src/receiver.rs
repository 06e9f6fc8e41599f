//! The receiving half: reassembly, acknowledgement policy, and a window that grows with the measured rate.

use std::collections::VecDeque;

use perigee_units::Time;

use crate::config::{measured_share, Config, WindowShare, SHARE_SHIFT};
use crate::segment::{Flags, Segment, MAX_SACK_BLOCKS};

/// State of the receiving half. Positions are bytes since the peer's initial sequence number.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// Next position expected (RCV.NXT).
    next: u64,
    /// Data received out of order, sorted, disjoint.
    out_of_order: VecDeque<(u64, u64)>,
    out_of_order_bytes: u64,
    /// Ranges to report, the newest first.
    reports: [(u64, u64); REPORTS],
    report_count: usize,
    duplicate: Option<(u64, u64)>,
    /// Position of the FIN, once seen.
    fin_at: Option<u64>,
    window: ReceiveWindow,
    acks: AckPolicy,
    sack: bool,
    dsack: bool,
}

/// What the arrival of data asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Nothing new was learnt from it (no payload).
    Empty,
    /// It lies outside the window or was received before.
    Duplicate,
    /// In order.
    InOrder,
    /// Beyond a gap.
    OutOfOrder,
}

impl Receiver {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            next: 0,
            out_of_order: VecDeque::new(),
            out_of_order_bytes: 0,
            reports: [(0, 0); REPORTS],
            report_count: 0,
            duplicate: None,
            fin_at: None,
            window: ReceiveWindow::new(config),
            acks: AckPolicy::new(config),
            sack: config.sack,
            dsack: config.dsack,
        }
    }

    pub(crate) fn set_sack(&mut self, on: bool) {
        self.sack = on;
        self.dsack &= on;
        self.acks.compression &= on;
    }

    /// Position expected next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn fin_received(&self) -> bool {
        self.fin_at.is_some_and(|at| self.next > at)
    }

    /// Payload bytes delivered in order.
    pub(crate) fn received(&self) -> u64 {
        self.next.saturating_sub(1 + u64::from(self.fin_received()))
    }

    /// Payload bytes that wait behind a gap.
    #[inline]
    pub(crate) fn out_of_order_bytes(&self) -> u64 {
        self.out_of_order_bytes
    }

    /// The peer's SYN: it takes position 0.
    pub(crate) fn on_syn(&mut self) {
        self.next = 1;
        self.window.acknowledged = 1;
    }

    /// Window to put into a segment sent now, in bytes; `scaled`: window scaling is in use.
    pub(crate) fn advertise(&mut self, scale: u8) -> u32 {
        self.window.advertise(self.next, self.out_of_order_bytes, scale)
    }

    /// The handshake is complete: the first round of the window's growth begins. `options`: bytes of every segment that
    /// timestamps take; who `opened` the connection counts them out of the segment sooner, as in Linux.
    pub(crate) fn on_established(&mut self, now: Time, options: u64, opened: bool) {
        let window = &mut self.window;
        let payload = window.mss.saturating_sub(options).max(1);
        if opened {
            window.mss = payload;
        }
        window.begin(now);
        window.mss = payload;
    }

    pub(crate) fn initial_window(&self) -> u32 {
        self.window.window as u32
    }

    /// Takes payload `start..start + len` (and FIN) in. `tsecr_rtt_us` is the age of the echoed timestamp.
    pub(crate) fn on_data(&mut self, now: Time, start: u64, segment: &Segment, echo_age_us: Option<u32>) -> Arrival {
        let len = u64::from(segment.len);
        let end = start + len;
        if segment.flags.has(Flags::FIN) {
            self.fin_at = Some(end);
        }
        if len == 0 && !segment.flags.has(Flags::FIN) {
            return Arrival::Empty;
        }
        self.acks.on_data(now, segment.len, self.window.window);
        self.window.on_segment(segment, echo_age_us);
        let end = end + u64::from(segment.flags.has(Flags::FIN));
        if end <= self.next {
            self.note_duplicate(start, end);
            self.acks.now = true;
            self.acks.enter_quick(self.window.window);
            return Arrival::Duplicate;
        }
        if start > self.window.right_edge() {
            self.acks.now = true;
            return Arrival::Duplicate;
        }
        let arrival = if start <= self.next {
            if start < self.next {
                self.note_duplicate(start, self.next);
            }
            self.next = end;
            let had_gap = !self.out_of_order.is_empty();
            self.take_contiguous();
            // RFC 5681, section 4.2: acknowledge at once when a gap is filled.
            self.acks.now |= had_gap && self.out_of_order.is_empty();
            Arrival::InOrder
        } else {
            self.insert(start, end);
            Arrival::OutOfOrder
        };
        let newest = self.out_of_order.back().map(|range| range.1);
        if self.window.grow(now, self.next, self.out_of_order_bytes, newest) {
            self.acks.stay_quick();
        }
        self.decide_ack(now);
        arrival
    }

    /// Whether an acknowledgement must leave now.
    pub(crate) fn ack_due(&self) -> bool {
        self.acks.now
    }

    /// Asks for an acknowledgement at once (a SYN retransmission, an old segment).
    pub(crate) fn force_ack(&mut self) {
        self.acks.now = true;
    }

    /// The network has marked a segment for the first time since the sender last reduced.
    pub(crate) fn on_congestion_mark(&mut self) {
        if self.acks.quick_allowed {
            self.acks.quick = self.acks.quick.max(2);
        }
    }

    /// When a delayed or compressed acknowledgement leaves at the latest.
    #[inline]
    pub(crate) fn ack_deadline(&self) -> Time {
        self.acks.delayed_until.min(self.acks.compressed_until)
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        if now >= self.acks.delayed_until {
            self.acks.delayed_until = Time::MAX;
            self.acks.on_delay_expired();
            self.acks.now = true;
        }
        if now >= self.acks.compressed_until {
            self.acks.compressed_until = Time::MAX;
            self.acks.now = true;
        }
    }

    /// An acknowledgement has left, alone or with data.
    #[inline]
    pub(crate) fn on_ack_sent(&mut self) {
        self.acks.on_sent();
        self.window.acknowledged = self.next;
    }

    /// Fills SACK blocks, duplicates first (RFC 2883), then the newest ranges.
    #[inline]
    pub(crate) fn fill_sack(&mut self, segment: &mut Segment, to_wire: impl Fn(u64) -> u32, limit: usize) {
        if !self.sack || (self.report_count == 0 && self.duplicate.is_none()) {
            return;
        }
        let limit = limit.min(MAX_SACK_BLOCKS);
        let mut count = 0;
        let ranges = self.duplicate.take().into_iter().chain(self.reports[..self.report_count].iter().copied());
        for (start, end) in ranges.take(limit) {
            segment.sack[count] = (to_wire(start), to_wire(end));
            count += 1;
        }
        segment.sack_count = count as u8;
    }

    fn note_duplicate(&mut self, start: u64, end: u64) {
        if self.dsack {
            self.duplicate = Some((start, end));
        }
    }

    /// Moves `next` over ranges that became contiguous and forgets them.
    fn take_contiguous(&mut self) {
        while let Some(&(start, end)) = self.out_of_order.front() {
            if start > self.next {
                break;
            }
            self.out_of_order_bytes -= end - start;
            self.next = self.next.max(end);
            self.out_of_order.pop_front();
        }
        if self.report_count > 0 {
            let next = self.next;
            self.retain_reports(|(_, end)| end > next);
        }
    }

    /// Adds `start..end`; most arrivals extend the last range.
    fn insert(&mut self, start: u64, end: u64) {
        let ranges = &mut self.out_of_order;
        let merged = match ranges.back_mut() {
            Some(last) if start == last.1 => {
                last.1 = end;
                self.out_of_order_bytes += end - start;
                let merged = *last;
                // The range reported first only grew: the common case touches nothing else.
                if self.report_count > 0 && self.reports[0].0 == merged.0 {
                    self.reports[0] = merged;
                    return;
                }
                self.report_first(merged);
                return;
            }
            last if last.as_ref().is_none_or(|last| start > last.1) => {
                ranges.push_back((start, end));
                self.out_of_order_bytes += end - start;
                (start, end)
            }
            _ => match self.insert_within(start, end) {
                Some(merged) => merged,
                None => return,
            },
        };
        self.report_first(merged);
    }

    /// Adds a range that is not the last; `None` where all of it was there already.
    fn insert_within(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        let first = self.out_of_order.partition_point(|range| range.1 < start);
        let mut merged = (start, end);
        let mut past = first;
        while let Some(&(s, e)) = self.out_of_order.get(past) {
            if s > end {
                break;
            }
            if s <= start && end <= e {
                self.note_duplicate(start, end);
                self.report_first((s, e));
                return None;
            }
            merged = (merged.0.min(s), merged.1.max(e));
            self.out_of_order_bytes -= e - s;
            past += 1;
        }
        self.out_of_order_bytes += merged.1 - merged.0;
        if past == first {
            self.out_of_order.insert(first, merged);
        } else {
            self.out_of_order[first] = merged;
            self.out_of_order.drain(first + 1..past);
        }
        Some(merged)
    }

    fn report_first(&mut self, range: (u64, u64)) {
        self.retain_reports(|(start, end)| end < range.0 || start > range.1);
        let kept = self.report_count.min(REPORTS - 1);
        self.reports.copy_within(..kept, 1);
        self.reports[0] = range;
        self.report_count = kept + 1;
    }

    fn retain_reports(&mut self, keep: impl Fn((u64, u64)) -> bool) {
        let mut kept = 0;
        for at in 0..self.report_count {
            if keep(self.reports[at]) {
                self.reports[kept] = self.reports[at];
                kept += 1;
            }
        }
        self.report_count = kept;
    }

    /// Linux's policy: each second full segment, each segment in quick mode, at once when told; otherwise later.
    /// While a gap is open, acknowledgements after the first three are compressed where that is on.
    #[inline]
    fn decide_ack(&mut self, now: Time) {
        let unacknowledged = self.next - self.window.acknowledged;
        let acks = &mut self.acks;
        if acks.now {
            return;
        }
        if !acks.delayed || unacknowledged > u64::from(acks.full_segment) || acks.quick > 0 {
            acks.now = true;
        } else if self.out_of_order.is_empty() {
            acks.delay(now);
        } else if !acks.compression || acks.compressed >= COMPRESS_AT_MOST {
            acks.now = true;
        } else {
            acks.compress(now, self.next, self.window.rtt_us);
        }
    }
}

/// When to acknowledge.
#[derive(Clone, Debug)]
struct AckPolicy {
    now: bool,
    delayed: bool,
    delayed_until: Time,
    compression: bool,
    compressed_until: Time,
    compressed: u32,
    /// Position at which the current gap was first acknowledged, and how often.
    gap: (u64, u32),
    /// Acknowledgements left to send without delay.
    quick: u32,
    quick_allowed: bool,
    /// Largest segment seen: what "full" means.
    full_segment: u16,
    last_data: Option<Time>,
    /// The delay in use, adapted to the gaps between segments.
    delay: Time,
    delay_max: Time,
}

impl AckPolicy {
    fn new(config: &Config) -> Self {
        Self {
            now: false,
            delayed: config.delayed_acks,
            delayed_until: Time::MAX,
            compression: config.ack_compression && config.sack,
            compressed_until: Time::MAX,
            compressed: 0,
            gap: (0, 0),
            quick: 0,
            quick_allowed: config.quick_acks,
            full_segment: 536,
            last_data: None,
            delay: config.delayed_ack_max,
            delay_max: config.delayed_ack_max,
        }
    }

    #[inline]
    fn on_data(&mut self, now: Time, len: u16, window: u64) {
        self.full_segment = self.full_segment.max(len);
        match self.last_data {
            None => self.enter_quick(window),
            Some(last) => {
                let gap = now - last;
                let half = Time::from_nanos(self.delay_max.as_nanos() / 2);
                let smoothed = Time::from_nanos(self.delay.as_nanos() / 2);
                if gap <= half {
                    self.delay = smoothed + half;
                } else if gap < self.delay {
                    self.delay = smoothed + gap;
                }
            }
        }
        self.last_data = Some(now);
    }

    /// Linux: as many as half the window holds, at most 16.
    fn enter_quick(&mut self, window: u64) {
        if self.quick_allowed {
            let fits = (window / (2 * u64::from(self.full_segment))).clamp(2, MAX_QUICK_ACKS);
            self.quick = self.quick.max(fits as u32);
        }
    }

    /// While the window grows, each segment is acknowledged, as in Linux.
    #[inline]
    fn stay_quick(&mut self) {
        self.quick |= u32::from(self.quick_allowed);
    }

    #[inline]
    fn delay(&mut self, now: Time) {
        if self.delayed_until == Time::MAX {
            self.delayed_until = now + self.delay.min(self.delay_max);
        }
    }

    fn on_delay_expired(&mut self) {
        self.delay = (self.delay * 2).min(self.delay_max);
    }

    fn compress(&mut self, now: Time, next: u64, rtt_us: u64) {
        if self.gap.0 != next {
            self.gap = (next, 0);
        }
        if self.gap.1 < 3 {
            self.gap.1 += 1;
            self.now = true;
            return;
        }
        self.compressed += 1;
        if self.compressed_until == Time::MAX {
            self.compressed_until = now + Time::from_micros(rtt_us / 20).min(COMPRESS_FOR);
        }
    }

    #[inline]
    fn on_sent(&mut self) {
        self.now = false;
        self.delayed_until = Time::MAX;
        self.compressed_until = Time::MAX;
        self.compressed = 0;
        self.quick = self.quick.saturating_sub(1);
    }
}

/// The advertised window and its growth (Linux's dynamic right-sizing; Fisk, Feng 2001).
#[derive(Clone, Debug)]
struct ReceiveWindow {
    buffer: u64,
    buffer_max: u64,
    autotuning: bool,
    /// The MSS we announced; from the handshake on, less the options of each segment.
    mss: u64,
    /// Most that the buffer allows to advertise.
    clamp: u64,
    /// Most that is advertised; grows with arriving data.
    threshold: u64,
    /// It grows no more once it is above this.
    growth_ends: u64,
    segment_memory: u64,
    /// Advertised last, counted from `acknowledged`.
    window: u64,
    /// Position up to which was acknowledged.
    acknowledged: u64,
    /// Smoothed round-trip time seen by the receiver, us.
    rtt_us: u64,
    last_echo: u32,
    /// Data taken in the last round, and the start of this one.
    round: Round,
    /// When data arrived in order that the application has not read yet, and where it ends.
    unread: Option<(Time, u64)>,
    /// Where the data end that arrived in order.
    arrived: u64,
    /// Part of the buffer that is window, of 256 (Linux's `scaling_ratio`).
    share: u64,
    /// What the share is taken from.
    sharing: WindowShare,
    /// No full segment has told its share yet.
    unmeasured: bool,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    space: u64,
    start: u64,
    at: Time,
}

impl ReceiveWindow {
    fn new(config: &Config) -> Self {
        let [_, initial, max] = config.rmem.map(perigee_units::Bytes::as_u64);
        let mss = u64::from(config.mss);
        let clamp = (initial * HALF) >> SHARE_SHIFT;
        let space = clamp.min(MAX_UNSCALED_WINDOW);
        let window = if space > mss { space - space % mss } else { space };
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
            acknowledged: 0,
            rtt_us: 0,
            last_echo: 0,
            round: Round { space: 1, start: 1, at: Time::ZERO },
            unread: None,
            arrived: 1,
            share: HALF,
            sharing: config.window_share,
            unmeasured: config.window_share == WindowShare::Measured,
        }
    }

    /// The handshake is complete. One segment stays in reserve until the buffer grows (`tcp_init_buffer_space`).
    fn begin(&mut self, now: Time) {
        if self.clamp > 2 * self.mss {
            self.clamp = (self.clamp - self.mss).max(2 * self.mss);
        }
        self.threshold = self.threshold.min(self.clamp);
        self.round.space = self.threshold.min(self.window).min(INITIAL_SEGMENTS * self.mss).max(1);
        self.round.at = now;
    }

    fn right_edge(&self) -> u64 {
        self.acknowledged + self.window
    }

    /// The right edge never moves back (RFC 9293, section 3.8.6).
    fn advertise(&mut self, next: u64, held_bytes: u64, scale: u8) -> u32 {
        let held = held_bytes * self.segment_memory / self.mss;
        let free = self.window_of(self.buffer.saturating_sub(held)).min(self.clamp).min(self.threshold);
        let unit = 1u64 << scale;
        let edge = self.right_edge();
        let window = free.div_ceil(unit).max(edge.saturating_sub(next).div_ceil(unit)) * unit;
        self.window = window.min(MAX_UNSCALED_WINDOW << scale);
        self.acknowledged = next;
        self.window as u32
    }

    fn window_of(&self, buffer: u64) -> u64 {
        (buffer * self.share) >> SHARE_SHIFT
    }

    /// The first full segment tells how much of its memory is payload; the window follows at once.
    fn measure_share(&mut self, payload: u64) {
        self.unmeasured = false;
        self.share = measured_share(payload, self.segment_memory);
        self.clamp = self.window_of(self.buffer);
        self.threshold = self.threshold.max(self.window.min(self.clamp));
        self.round.space = self.round.space.min(self.clamp);
    }

    /// The round-trip time as a receiver of bulk data sees it: the age of a newly echoed timestamp.
    #[inline]
    fn on_segment(&mut self, segment: &Segment, echo_age_us: Option<u32>) {
        if self.unmeasured && u64::from(segment.len) + OPTION_BYTES >= self.mss {
            self.measure_share(u64::from(segment.len));
        }
        let Some(age) = echo_age_us else { return };
        if segment.tsecr == self.last_echo || u64::from(segment.len) + OPTION_BYTES < self.mss {
            return;
        }
        self.last_echo = segment.tsecr;
        let sample = u64::from(age.max(1000));
        // A smaller sample counts at once, larger ones little by little.
        let first_or_least = self.rtt_us == 0 || sample < self.rtt_us;
        self.rtt_us = if first_or_least { sample } else { self.rtt_us - (self.rtt_us >> 3) + (sample >> 3) };
    }

    /// Each segment opens the window by two; whether it did.
    #[inline]
    fn grow(&mut self, now: Time, next: u64, held_bytes: u64, newest: Option<u64>) -> bool {
        // Behind a gap the buffer makes room for what waits there (since 6.16).
        let modern = self.sharing == WindowShare::Measured;
        let behind_gap = newest.filter(|_| modern).map_or(0, |newest| newest.saturating_sub(next));
        // The application reads after all that arrives at one instant.
        if let Some((at, read)) = self.unread.take_if(|(at, _)| *at < now) {
            self.on_read(at, read, behind_gap);
        }
        let mut held = held_bytes * self.segment_memory / self.mss;
        if next > self.arrived {
            self.arrived = next;
            self.unread = Some((now, next));
            held += if modern { self.segment_memory } else { 0 };
        }
        let most = self.clamp.min(self.window_of(self.buffer.saturating_sub(held)));
        let room = if self.threshold > self.growth_ends { 0 } else { most.saturating_sub(self.threshold) };
        self.threshold += room.min(2 * self.mss);
        if behind_gap > 0 && self.autotuning {
            self.enlarge(u128::from(2 * self.round.space + behind_gap));
        }
        room > 0
    }

    /// The application has read up to `next`: each round trip the buffer follows what was taken, twice that to cover a
    /// loss, and twice its growth on top to keep ahead of a sender in slow start; and what waits behind a gap.
    #[inline]
    fn on_read(&mut self, now: Time, next: u64, behind_gap: u64) {
        if self.rtt_us == 0 || (now - self.round.at).as_micros() < self.rtt_us {
            return;
        }
        let copied = next - self.round.start;
        if copied > self.round.space {
            if self.autotuning {
                let reserve = if self.sharing == WindowShare::Half { 16 * self.mss } else { 0 };
                let base = 2 * copied + reserve;
                let grown = u128::from(base) * u128::from(copied - self.round.space) / u128::from(self.round.space);
                self.enlarge(u128::from(base + behind_gap) + 2 * grown);
            }
            self.round.space = copied;
        }
        self.round.start = next;
        self.round.at = now;
    }

    /// Makes the buffer large enough for a window of `window` bytes, as far as it may grow.
    fn enlarge(&mut self, window: u128) {
        let buffer = match self.sharing {
            WindowShare::Half => window / u128::from(self.mss) * u128::from(buffer_per_segment(self.mss)),
            WindowShare::Measured => (window << SHARE_SHIFT) / u128::from(self.share),
        };
        let buffer = u64::try_from(buffer).unwrap_or(u64::MAX).min(self.buffer_max);
        if buffer > self.buffer {
            self.buffer = buffer;
            self.clamp = self.window_of(buffer);
        }
    }
}

/// Ranges remembered for reports: one more than fits beside timestamps.
const REPORTS: usize = 4;
/// Linux's `TCP_MAX_QUICKACKS`.
const MAX_QUICK_ACKS: u64 = 16;
/// Linux's `tcp_comp_sack_nr` and `tcp_comp_sack_delay_ns`.
const COMPRESS_AT_MOST: u32 = 44;
const COMPRESS_FOR: Time = Time::from_millis(1);
/// Half the buffer is for overhead (`tcp_adv_win_scale` = 1) unless it is measured.
const HALF: u64 = 1 << (SHARE_SHIFT - 1);
/// Memory that Linux reckons for a segment besides its payload: room for headers (256; 320 where wireless drivers are
/// built in) and bookkeeping (576). It adds 128 until half of the whole holds the payload.
const SEGMENT_OVERHEAD: u64 = 256 + 576;
const SEGMENT_STEP: u64 = 128;
/// Most options a full data segment carries.
const OPTION_BYTES: u64 = 40;
const MAX_UNSCALED_WINDOW: u64 = 65_535;
const INITIAL_SEGMENTS: u64 = 10;

/// Buffer added for each segment of window.
fn buffer_per_segment(payload: u64) -> u64 {
    let least = payload + SEGMENT_OVERHEAD;
    least + (2 * payload).saturating_sub(least).next_multiple_of(SEGMENT_STEP)
}

/// Where the window stops growing although the buffer has room (see [`Config::largest_window`]).
fn growth_ends(config: &Config) -> u64 {
    let half = config.window_share == WindowShare::Half;
    if half && config.segment_memory.as_u64() / 2 > u64::from(config.mss) {
        config.largest_window().as_u64()
    } else {
        u64::MAX
    }
}

/// Shift that lets the largest buffer be advertised in 16 bits.
pub(crate) fn window_scale(config: &Config) -> u8 {
    let mut space = config.rmem[2].as_u64();
    let mut scale = 0;
    while space > MAX_UNSCALED_WINDOW && scale < 14 {
        space >>= 1;
        scale += 1;
    }
    scale
}
