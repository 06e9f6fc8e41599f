//! Two captures read side by side: which packets of a connection both show, which only one, and whether it is one connection at all.
//!
//! The second is shifted by the time between the first SYNs (otherwise the first
//! packets), so that the clocks need not agree. A packet with data is identified by its sequence number and its
//! timestamp, a packet without data by its acknowledgement number. Retransmissions with the same timestamp, or without
//! timestamps, are distinguished by their count. Packets before the first one in both captures, or after the last, are
//! not counted.
//!
//! It is one connection if nearly all data packets in the capture near the receiver are in the other, at least a third of those near the
//! sender are in the one near the receiver, and no packet arrives before it was sent, whatever the clocks show: the least times of both
//! directions add up to no less than nothing.

use perigee_units::Time;
use perigee_wire::{Position, Tcp, Transport};
use rustc_hash::FxHashMap;

use crate::candidates::{Candidate, Candidates};
use crate::delays::Delays;
use crate::error::AnalyzeError;
use crate::key::Key;
use crate::sequence_history::SequenceHistory;
use crate::stream::{Item, Source, Stream, Watch};
use crate::survey::{ConnectionSummary, DirectionSummary, Survey};
use crate::vantage::segment;

/// One connection in two captures.
pub(crate) struct PairedConnection {
    /// The capture that is nearer to the sender, by direction.
    pub(crate) near: [usize; 2],
    /// The number before the first byte, by direction, in the capture near the sender.
    pub(crate) beginning: [u32; 2],
    pub(crate) ways: [DirectionPackets; 2],
    agreement: Agreement,
    /// From its first packet to the last, in the longer capture.
    length: Time,
}

/// The packets of one direction: those with data, and others.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirectionPackets {
    pub(crate) data: Matches,
    pub(crate) others: Matches,
    /// From the capture near the sender to the other, with the difference of their clocks.
    delays: Delays,
}

/// Data packets of both directions whose bytes are in both captures.
#[derive(Clone, Copy, Debug, Default)]
struct Agreement {
    /// Packets in the capture near their sender; `far` are in the other, `matched` in both.
    near: u64,
    far: u64,
    matched: u64,
}

/// Packets of one kind that passed near their sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matches {
    sent: u64,
    /// Numbers of the first and the last packet in both captures; those outside have an unknown fate.
    pub(crate) known: Option<(u64, u64)>,
    lost: Vec<Lost>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    /// Number among the packets of its kind.
    pub(crate) number: u64,
    pub(crate) at: Time,
    pub(crate) sequence: u32,
}

/// A connection that is being compared.
struct Comparing<'a> {
    summaries: [&'a ConnectionSummary; 2],
    /// Payload of one packet, by way.
    segment: [u32; 2],
    history: [[SequenceHistory; 2]; 2],
    shared: [Shared; 2],
    found: PairedConnection,
}

/// The bytes of a direction that both captures cover.
#[derive(Clone, Debug)]
struct Shared {
    /// Positions in either capture, both from the earlier beginning.
    positions: [Position; 2],
    start: u64,
    end: u64,
}

/// Identifies a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Mark {
    connection: u32,
    way: u8,
    is_data: bool,
    number: u32,
    clock: u32,
    rest: (u32, u32, u16),
}

/// Copies of a packet that the capture near its sender has beyond those of the other.
#[derive(Clone, Copy, Debug)]
struct Open {
    balance: i32,
    /// Its first transmission: of several copies, the lost one.
    first: Lost,
    last: Lost,
    /// When it passed where it passed first, by the first capture's clock, ns.
    since_ns: i64,
    /// No other copy of it is open, so that the next one in the other capture is the same packet.
    is_single: bool,
}

/// A packet passes one of the captures.
#[derive(Clone, Copy, Debug)]
struct Passing {
    is_near: bool,
    at: Time,
    /// The time, on the first capture's clock.
    at_ns: i64,
    sequence: u32,
    /// Its bytes are in both captures.
    is_shared: bool,
}

/// Reads both captures of candidates side by side; returns what was found of each connection.
pub(crate) fn compare(
    pair: &Candidates,
    sources: &[Source],
    surveys: &[Survey],
    watch: &mut Watch<'_>,
) -> Result<Vec<PairedConnection>, AnalyzeError> {
    let [first, second] = pair.captures;
    let mut comparison = Comparison::new(pair, surveys);
    let mut streams = [Stream::open(&sources[first])?, Stream::open(&sources[second])?];
    let mut done = [0, 0];
    let mut next = [read(&mut streams, 0, &mut done, watch)?, read(&mut streams, 1, &mut done, watch)?];
    loop {
        let side = match (&next[0], &next[1]) {
            (Some(a), Some(b)) => usize::from(comparison.time(1, b) < comparison.time(0, a)),
            (Some(_), None) => 0,
            (None, Some(_)) => 1,
            (None, None) => break,
        };
        if let Some(item) = next[side].take() {
            comparison.packet(side, &item);
        }
        next[side] = read(&mut streams, side, &mut done, watch)?;
    }
    Ok(comparison.finish())
}

fn read(
    streams: &mut [Stream; 2],
    side: usize,
    done: &mut [u64; 2],
    watch: &mut Watch<'_>,
) -> Result<Option<Item>, AnalyzeError> {
    let mut both = |read: u64| {
        done[side] = read;
        watch(done[0] + done[1])
    };
    streams[side].next(&mut both)
}

/// The comparison of two captures under way.
struct Comparison<'a> {
    connections: Vec<Comparing<'a>>,
    by_key: FxHashMap<Key, Vec<u32>>,
    /// Offset of the second capture's clock from the first's, ns.
    shift_ns: i64,
    /// Packets in one capture only: recent ones, and older ones.
    open: FxHashMap<Mark, Open>,
    before: FxHashMap<Mark, Open>,
    turn: u64,
}

impl<'a> Comparison<'a> {
    fn new(pair: &Candidates, surveys: &'a [Survey]) -> Self {
        let chosen = pair.captures.map(|capture| &surveys[capture].chosen);
        let connections: Vec<Comparing<'a>> = pair
            .connections
            .iter()
            .map(|Candidate { places, near }| Comparing::new([&chosen[0][places[0]], &chosen[1][places[1]]], *near))
            .collect();
        let mut by_key: FxHashMap<_, Vec<u32>> = FxHashMap::default();
        for (number, connection) in (0..).zip(&connections) {
            by_key.entry(connection.summaries[0].key).or_default().push(number);
        }
        let shift_ns = connections.first().map_or(0, |connection| {
            let [first, second] = connection.summaries;
            let begin =
                |summary: &ConnectionSummary| summary.opening.first_syn.unwrap_or(summary.first).as_nanos() as i64;
            begin(second) - begin(first)
        });
        let (open, before) = (FxHashMap::default(), FxHashMap::default());
        Self { connections, by_key, shift_ns, open, before, turn: 0 }
    }

    /// A packet's time by the first capture's clock.
    fn time(&self, side: usize, item: &Item) -> i64 {
        item.now.as_nanos() as i64 - if side == 1 { self.shift_ns } else { 0 }
    }

    fn packet(&mut self, side: usize, item: &Item) {
        let Transport::Tcp(tcp) = item.packet.transport else { return };
        let Some(numbers) = self.by_key.get(&item.key) else { return };
        let within = |number: &&u32| {
            let (first, last) = self.connections[**number as usize].summaries[side].numbers;
            first <= item.number && item.number <= last
        };
        let Some(number) = numbers.iter().find(within).copied() else { return };
        let at_ns = self.time(side, item);
        let turn = (at_ns.max(0) as u64) / TURN_NS;
        if turn > self.turn || self.open.len() > MOST_OPEN {
            self.turn = turn;
            self.settle();
        }
        let connection = &mut self.connections[number as usize];
        if connection.summaries[side].view(item.way).is_some_and(|view| view != item.view) {
            return;
        }
        if tcp.payload > 0
            && connection.history[side][item.way].is_duplicate(item.now, &tcp, item.packet.identification)
        {
            return;
        }
        let is_near = connection.found.near[item.way] == side;
        let segment = connection.segment[item.way];
        let passing = Passing { is_near, at: item.now, at_ns, sequence: tcp.sequence, is_shared: false };
        if tcp.payload == 0 {
            return self.count(Mark::of_answer(number, item.way, &tcp), passing);
        }
        let mut rest = tcp;
        while rest.payload > 0 {
            let payload = rest.payload.min(segment);
            let is_shared = self.connections[number as usize].shared[item.way].has(side, rest.sequence);
            let piece = Passing { sequence: rest.sequence, is_shared, ..passing };
            self.count(Mark::of_data(number, item.way, &rest), piece);
            rest.sequence = rest.sequence.wrapping_add(payload);
            rest.payload -= payload;
        }
    }

    fn count(&mut self, mark: Mark, passing: Passing) {
        let Passing { is_near, at, at_ns, sequence, is_shared } = passing;
        let known = self.before.remove(&mark);
        let found = &mut self.connections[mark.connection as usize].found;
        let way = &mut found.ways[usize::from(mark.way)];
        let matches = if mark.is_data { &mut way.data } else { &mut way.others };
        let this = Lost { number: matches.sent, at, sequence };
        let new = Open { balance: 0, first: this, last: this, since_ns: at_ns, is_single: true };
        let open = self.open.entry(mark).or_insert(known.unwrap_or(new));
        if is_near {
            matches.sent += 1;
            open.last = this;
        }
        let is_match = if is_near { open.balance < 0 } else { open.balance > 0 };
        if is_match {
            let number = open.last.number;
            let (first, last) = matches.known.unwrap_or((number, number));
            matches.known = Some((first.min(number), last.max(number)));
            if open.is_single {
                way.delays.add(if is_near { open.since_ns - at_ns } else { at_ns - open.since_ns });
            }
        }
        if is_shared {
            found.agreement.add(is_near, is_match);
        }
        open.is_single &= is_match || open.balance == 0;
        open.balance += if is_near { 1 } else { -1 };
        if open.balance == 0 {
            self.open.remove(&mark);
        }
    }

    /// Packets in one capture only for two turns will not appear in the other.
    fn settle(&mut self) {
        let settled = std::mem::replace(&mut self.before, std::mem::take(&mut self.open));
        #[allow(clippy::iter_over_hash_type, reason = "Matches::lost sorts what is pushed here")]
        for (mark, open) in settled {
            let Ok(times) = u64::try_from(open.balance) else { continue };
            let way = &mut self.connections[mark.connection as usize].found.ways[usize::from(mark.way)];
            let matches = if mark.is_data { &mut way.data } else { &mut way.others };
            matches.lost.extend((0..times).map(|_| open.first));
        }
    }

    fn finish(mut self) -> Vec<PairedConnection> {
        self.settle();
        self.settle();
        self.connections.into_iter().map(|connection| connection.found).collect()
    }
}

impl<'a> Comparing<'a> {
    fn new(summaries: [&'a ConnectionSummary; 2], near: [usize; 2]) -> Self {
        // Segments are as large as they leave their sender.
        let segment = [0, 1].map(|way: usize| segment(summaries[near[way]], way));
        let beginning = [0, 1].map(|way: usize| summaries[near[way]].ways[way].beginning.unwrap_or_default());
        let length = summaries.map(|summary| summary.last - summary.first).into_iter().max().unwrap_or_default();
        let (ways, agreement) = (Default::default(), Agreement::default());
        let found = PairedConnection { near, beginning, ways, agreement, length };
        let shared = [0, 1].map(|way: usize| Shared::of(summaries.map(|summary| &summary.ways[way])));
        Self { summaries, segment, history: Default::default(), shared, found }
    }
}

impl PairedConnection {
    /// Whether it is one connection.
    pub(crate) fn is_same(&self) -> bool {
        self.agreement.is_of_one_connection() && self.is_in_time()
    }

    /// Whether no packet arrives before it was sent. The difference of the clocks is in the times of both directions, with different
    /// signs; a twentieth of the packets, and what clocks drift apart, is left out.
    fn is_in_time(&self) -> bool {
        let [Some(there), Some(back)] = self.ways.each_ref().map(|way| way.delays.low()) else { return true };
        let drift = self.length.as_nanos() / DRIFT + CLOCK.as_nanos();
        there.saturating_add(back) >= -(drift as i64)
    }
}

impl Agreement {
    fn add(&mut self, is_near: bool, is_match: bool) {
        *(if is_near { &mut self.near } else { &mut self.far }) += 1;
        self.matched += u64::from(is_match);
    }

    /// Nearly all packets that arrived were sent, and of those that were sent, at least a third arrived. A few are too few to tell.
    fn is_of_one_connection(self) -> bool {
        self.far * 9 <= self.matched * 10 + FEW && self.near <= self.matched * 3 + FEW
    }
}

impl Shared {
    fn of(ways: [&DirectionSummary; 2]) -> Self {
        let [first, second] = ways.map(|way| way.beginning);
        let (first, second) = (first.or(second).unwrap_or_default(), second.or(first).unwrap_or_default());
        let apart = second.wrapping_sub(first) as i32;
        let earlier = if apart < 0 { second } else { first };
        let starts = [first, second].map(|beginning| u64::from(beginning.wrapping_sub(earlier)));
        let mut position = Position::default();
        position.begin(earlier.wrapping_add(1));
        let end = (starts[0] + ways[0].length).min(starts[1] + ways[1].length);
        Self { positions: [position; 2], start: starts[0].max(starts[1]), end }
    }

    /// Whether the byte with this number, which passes one of the captures, is in both.
    fn has(&mut self, side: usize, sequence: u32) -> bool {
        (self.start..self.end).contains(&self.positions[side].of(sequence))
    }
}

impl Matches {
    /// Packets with a known fate.
    pub(crate) fn sent(&self) -> u64 {
        self.known.map_or(0, |(first, last)| last - first + 1)
    }

    /// The lost ones, in order.
    pub(crate) fn lost(&self) -> Vec<Lost> {
        let Some((first, last)) = self.known else { return Vec::new() };
        let mut lost: Vec<Lost> =
            self.lost.iter().filter(|lost| (first..=last).contains(&lost.number)).copied().collect();
        lost.sort_unstable_by_key(|lost| lost.number);
        lost
    }
}

impl Mark {
    fn of_data(connection: u32, way: usize, tcp: &Tcp) -> Self {
        let clock = tcp.timestamps.map_or(0, |(clock, _)| clock);
        Self { connection, way: way as u8, is_data: true, number: tcp.sequence, clock, rest: (0, 0, 0) }
    }

    fn of_answer(connection: u32, way: usize, tcp: &Tcp) -> Self {
        let (clock, echo) = tcp.timestamps.unwrap_or_default();
        let (_, last) = tcp.sack.blocks().first().copied().unwrap_or_default();
        let number = tcp.acknowledgement.unwrap_or_default();
        let flags = u16::from(tcp.syn) | u16::from(tcp.fin) << 1 | u16::from(tcp.rst) << 2;
        Self { connection, way: way as u8, is_data: false, number, clock, rest: (echo, last, flags) }
    }
}

/// A packet takes less than this from one capture to the other, and clocks drift by less.
const TURN_NS: u64 = 30_000_000_000;
/// Packets under way, or lost, at a time.
const MOST_OPEN: usize = 1 << 21;
/// Data packets that may be missing without a word on it.
const FEW: u64 = 10;
/// Clocks drift apart by less than a thousandth: two that are slewed by 500 ppm each.
const DRIFT: u64 = 1000;
/// Resolution of the clocks.
const CLOCK: Time = Time::from_millis(1);
