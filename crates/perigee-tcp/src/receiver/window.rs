//! The advertised window and its growth (Linux's dynamic right-sizing; Fisk, Feng 2001).

use perigee_units::{Bytes, Time};

use perigee_settings::{measured_share, Config, WindowShare, SHARE_SHIFT};

/// The window to advertise. Its right edge never moves back.
#[derive(Clone, Debug)]
pub(super) struct ReceiveWindow {
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
    /// Timestamp echoed last that gave a sample; [`NO_ECHO`] before the first.
    last_echo: u64,
    /// The window that is on its way, by which the round-trip time is measured too.
    arriving: ArrivingWindow,
    /// The peer agreed on selective acknowledgements.
    sack: bool,
    /// Data taken in the last round, and the start of this one.
    round: Round,
    /// When data arrived in order that the application reads after that instant, and where it ends; on demand: when it has read,
    /// and up to where. [`Time::MAX`]: nothing is read.
    unread: (Time, u64),
    /// Where the data end that arrived in order.
    arrived: u64,
    /// Part of the buffer that is window, of 256 (Linux's `scaling_ratio`).
    share: u64,
    /// What the share is taken from.
    sharing: WindowShare,
    /// A segment with more payload than this is measured: the largest so far, at least Linux's first guess (`rcv_mss`). `u64::MAX`:
    /// none is.
    measured: u64,
    /// The application says itself when it reads.
    on_demand: bool,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    space: u64,
    start: u64,
    at: Time,
}

/// A window that was advertised: a round trip passes at the least until all of it has arrived.
#[derive(Clone, Copy, Debug)]
struct ArrivingWindow {
    /// Position where it ends.
    end: u64,
    /// When it began; [`Time::MAX`]: no data have arrived yet.
    since: Time,
}

impl ReceiveWindow {
    pub(super) fn new(config: &Config) -> Self {
        let [_, initial, max] = config.rmem.map(Bytes::as_u64);
        let mss = u64::from(config.mss);
        let clamp = (initial * HALF) >> SHARE_SHIFT;
        let window = first_window(clamp, mss);
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
            last_echo: NO_ECHO,
            arriving: ArrivingWindow { end: 0, since: Time::MAX },
            sack: config.sack,
            round: Round { space: 1, start: 1, at: Time::ZERO },
            unread: (Time::MAX, 0),
            arrived: 1,
            share: HALF,
            sharing: config.window_share,
            measured: if config.window_share == WindowShare::Measured { FIRST_SEGMENT } else { u64::MAX },
            on_demand: false,
        }
    }

    /// The end that listens has received a SYN: its first window is of segments without their options (`tcp_openreq_init_rwin`).
    pub(super) fn on_request(&mut self, options: u64) {
        self.window = first_window(self.clamp, self.mss.saturating_sub(options).max(1));
        self.threshold = self.clamp.min(self.window);
    }

    /// What the handshake agreed on.
    pub(super) fn set_sack(&mut self, on: bool) {
        self.sack = on;
    }

    /// The handshake is complete, and the first round of growth begins. Options of every segment take payload from
    /// it; one segment stays in reserve until the buffer grows (`tcp_init_buffer_space`).
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

    /// The application says itself when it reads: [`ReceiveWindow::on_read_until`].
    pub(super) fn read_on_demand(&mut self) {
        self.on_demand = true;
    }

    /// The application has read up to this position.
    pub(super) fn on_read_until(&mut self, now: Time, position: u64) {
        self.unread = (now, position);
    }

    /// Whether the sender has to know how far the window has opened by reading (`tcp_cleanup_rbuf`): to twice what is left
    /// of the window, unless half of the largest one is left. `held_bytes` are in the buffer.
    pub(super) fn has_opened_much(&self, next: u64, held_bytes: u64) -> bool {
        let left = self.right_edge().saturating_sub(next);
        let free = self.free(held_bytes);
        2 * left <= self.clamp && free > 0 && free >= 2 * left
    }

    /// Memory that payload in the buffer takes; mostly there is none.
    #[inline]
    fn memory_of(&self, held_bytes: u64) -> u64 {
        match held_bytes {
            0 => 0,
            bytes => bytes * self.segment_memory / self.mss,
        }
    }

    /// Memory that a segment with this payload takes: less than a full one where a small window bounds it.
    #[inline]
    fn memory_of_segment(&self, payload: u64) -> u64 {
        if payload >= self.mss {
            return self.segment_memory;
        }
        (payload * self.segment_memory / self.mss).max(LEAST_MEMORY).min(self.segment_memory)
    }

    /// Window that the buffer has room for.
    #[inline]
    fn free(&self, held_bytes: u64) -> u64 {
        if held_bytes == 0 {
            // An empty buffer never has less room than the most it allows to advertise.
            return self.clamp.min(self.threshold);
        }
        let held = self.memory_of(held_bytes);
        let space = self.window_of(self.buffer.saturating_sub(held));
        if self.on_demand && self.is_almost_full(space) {
            return 0;
        }
        space.min(self.clamp).min(self.threshold)
    }

    /// Whether the room left is so little that the window closes, so that no segments are sent that are smaller than full
    /// ones (`__tcp_select_window`).
    #[cold]
    fn is_almost_full(&self, space: u64) -> bool {
        let whole = self.clamp.min(self.window_of(self.buffer));
        space < self.mss.min(whole).max(whole >> 4)
    }

    /// What was advertised last, bytes.
    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.window
    }

    /// Position up to which was acknowledged.
    #[inline]
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// An acknowledgement of `next` has left.
    #[inline]
    pub(super) fn on_ack_sent(&mut self, next: u64) {
        self.acknowledged = next;
    }

    /// Smoothed round-trip time as the receiver sees it, us; 0 before a sample.
    #[inline]
    pub(super) fn rtt_us(&self) -> u64 {
        self.rtt_us
    }

    /// Position after the last one that was advertised.
    pub(super) fn right_edge(&self) -> u64 {
        self.acknowledged + self.window
    }

    /// The right edge never moves back (RFC 9293, section 3.8.6).
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(super) fn advertise(&mut self, next: u64, held_bytes: u64, scale: u8) -> u32 {
        let least = self.right_edge().saturating_sub(next);
        let units = (self.free(held_bytes).max(least) + (1 << scale) - 1) >> scale;
        self.window = (units << scale).min(MAX_UNSCALED_WINDOW << scale);
        self.acknowledged = next;
        self.window as u32
    }

    fn window_of(&self, buffer: u64) -> u64 {
        (buffer * self.share) >> SHARE_SHIFT
    }

    /// Whether a segment has all the payload that it may have: the sender also bounds it to half of the window.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    fn is_full(&self, payload: u64) -> bool {
        let most = payload + OPTION_BYTES;
        most >= self.mss || most >= self.window / 2
    }

    /// How much of its memory is payload in a segment larger than all before; the window follows at once (`tcp_measure_rcv_mss`).
    #[cold]
    fn measure_share(&mut self, payload: u64) {
        self.measured = payload;
        self.share = measured_share(payload, self.memory_of_segment(payload));
        self.clamp = self.window_of(self.buffer);
        self.threshold = self.threshold.max(self.window.min(self.clamp));
        self.round.space = self.round.space.min(self.clamp);
    }

    /// The round-trip time as a receiver of bulk data sees it: the age of a newly echoed timestamp, of a segment with so much
    /// `payload`.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
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
        // A smaller sample counts at once, larger ones little by little.
        let first_or_least = self.rtt_us == 0 || sample < self.rtt_us;
        self.rtt_us = if first_or_least { sample } else { self.rtt_us - (self.rtt_us >> 3) + (sample >> 3) };
    }

    /// Each segment opens the window by two, or by twice its own payload where several came as one; returns whether this one did.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub(super) fn grow(
        &mut self,
        now: Time,
        next: u64,
        (held_bytes, payload): (u64, u64),
        newest: Option<u64>,
    ) -> bool {
        // Behind a gap the buffer makes room for what waits there (since 6.16).
        let modern = self.sharing == WindowShare::Measured;
        let behind_gap = newest.filter(|_| modern).map_or(0, |newest| newest.saturating_sub(next));
        // The application reads after all that arrives at one instant.
        let (at, read) = self.unread;
        if at < now {
            self.unread.0 = Time::MAX;
            self.on_read(at, read, behind_gap);
        }
        let mut held = self.memory_of(held_bytes);
        // Without SACK, an acknowledgement behind a gap has to be a duplicate, which another window would make it not
        // (RFC 5681, section 2).
        let keeps_window = newest.is_some() && next == self.arrived && !self.sack;
        if next > self.arrived {
            self.arrived = next;
            if next >= self.arriving.end {
                self.on_window_arrived(now, next);
            }
            if !self.on_demand {
                self.unread = (now, next);
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

    /// The window that was advertised when the last one had arrived has arrived itself, and data in order end at `next`. The time that it took
    /// is no less than a round trip, and much more where the sender is not limited by it: only smaller samples count, and they are
    /// not smoothed (`tcp_rcv_rtt_measure`).
    #[inline(never)]
    fn on_window_arrived(&mut self, now: Time, next: u64) {
        if self.arriving.since < Time::MAX {
            let sample = ((now - self.arriving.since).as_nanos() / 1000).max(1);
            self.rtt_us = if self.rtt_us == 0 { sample } else { self.rtt_us.min(sample) };
        }
        self.arriving = ArrivingWindow { end: next + self.window, since: now };
    }

    /// The application has read up to `next`: each round trip the buffer follows what was taken, twice that to cover a
    /// loss, and twice its growth on top to keep ahead of a sender in slow start; and what waits behind a gap.
    #[inline]
    fn on_read(&mut self, now: Time, next: u64, behind_gap: u64) {
        if self.rtt_us > 0 && (now - self.round.at).as_nanos() >= self.rtt_us * 1000 {
            self.end_round(now, next, behind_gap);
        }
    }

    #[inline(never)]
    fn end_round(&mut self, now: Time, next: u64, behind_gap: u64) {
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
    #[inline(never)]
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

/// Buffer added for each segment of window.
fn buffer_per_segment(payload: u64) -> u64 {
    let least = payload + SEGMENT_OVERHEAD;
    least + (2 * payload).saturating_sub(least).next_multiple_of(SEGMENT_STEP)
}

/// The window of a segment that opens the connection, not scaled: whole segments (`tcp_select_initial_window`).
fn first_window(clamp: u64, segment: u64) -> u64 {
    let space = clamp.min(MAX_UNSCALED_WINDOW);
    if space > segment {
        space - space % segment
    } else {
        space
    }
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

/// Shift that lets the largest buffer be advertised in 16 bits, of those that an application may set, too
/// (`tcp_select_initial_window`).
pub(crate) fn window_scale(config: &Config) -> u8 {
    let settable = match config.window_share {
        WindowShare::Half => RMEM_MAX_BEFORE,
        WindowShare::Measured => RMEM_MAX,
    };
    let mut space = config.rmem[2].as_u64().max(settable);
    let mut scale = 0;
    while space > MAX_UNSCALED_WINDOW && scale < 14 {
        space >>= 1;
        scale += 1;
    }
    scale
}

/// Half the buffer is for overhead (`tcp_adv_win_scale` = 1) unless it is measured.
const HALF: u64 = 1 << (SHARE_SHIFT - 1);
/// Memory that Linux reckons for a segment besides its payload: room for headers (256; 320 where wireless drivers are
/// built in) and bookkeeping (576). It adds 128 until half of the whole holds the payload.
const SEGMENT_OVERHEAD: u64 = 256 + 576;
const SEGMENT_STEP: u64 = 128;
/// Most options a full data segment carries.
const OPTION_BYTES: u64 = 40;
const MAX_UNSCALED_WINDOW: u64 = 65_535;
/// No timestamp: they have 32 bits.
const NO_ECHO: u64 = u64::MAX;
const INITIAL_SEGMENTS: u64 = 10;
/// Memory of a small packet on arrival: drivers take 2 KiB, and bookkeeping comes on top.
const LEAST_MEMORY: u64 = 2304;
/// Payload of a segment as Linux expects it before it has seen one (`TCP_MSS_DEFAULT`).
const FIRST_SEGMENT: u64 = 536;
/// The default of Linux's `net.core.rmem_max`, in 6.18 and in old versions.
const RMEM_MAX: u64 = 4 << 20;
const RMEM_MAX_BEFORE: u64 = 212_992;
