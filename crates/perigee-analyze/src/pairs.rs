//! Compares two captures of one connection: a packet in the capture near its sender that the other lacks was lost.
//!
//! Both captures are read side by side. The second is shifted by the time between the first SYNs (otherwise the first
//! packets), so that the clocks need not agree. A packet with data is identified by its sequence number and its
//! timestamp, a packet without data by its acknowledgement number. Retransmissions with the same timestamp, or without
//! timestamps, are distinguished by their count. Packets before the first one in both captures, or after the last, are
//! not counted.

use perigee_results::{CaptureTables, LossRow, Name};
use perigee_units::Time;
use perigee_wire::{Tcp, Transport};
use rustc_hash::FxHashMap;

use crate::error::AnalyzeError;
use crate::measure::Measured;
use crate::sequence_history::SequenceHistory;
use crate::side::Side;
use crate::stream::{Item, Source, Stream, Watch};
use crate::survey::{ConnectionSummary, Survey};
use crate::vantage::segment;

/// Captures that show the same connections.
pub(crate) struct Pair {
    /// Numbers of the captures.
    pub(crate) captures: [usize; 2],
    /// Places among what each survey has chosen.
    connections: Vec<[usize; 2]>,
}

/// One connection in two captures.
struct PairedConnection<'a> {
    summaries: [&'a ConnectionSummary; 2],
    /// The capture that is nearer to the sender, by direction.
    near: [usize; 2],
    /// Payload of one packet, by way.
    segment: [u32; 2],
    history: [[SequenceHistory; 2]; 2],
    ways: [DirectionPackets; 2],
}

/// The packets of one direction: those with data, and others.
#[derive(Clone, Debug, Default)]
struct DirectionPackets {
    data: Matches,
    others: Matches,
}

/// Packets of one kind that passed near their sender.
#[derive(Clone, Debug, Default)]
struct Matches {
    sent: u64,
    /// Numbers of the first and the last packet in both captures; those outside have an unknown fate.
    known: Option<(u64, u64)>,
    lost: Vec<Lost>,
}

#[derive(Clone, Copy, Debug)]
struct Lost {
    /// Number among the packets of its kind.
    number: u64,
    at: Time,
    sequence: u32,
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
}

/// Finds captures that show the same connections from two places.
pub(crate) fn find(surveys: &[Survey]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for first in 0..surveys.len() {
        for second in first + 1..surveys.len() {
            let connections = common(&surveys[first].chosen, &surveys[second].chosen);
            if !connections.is_empty() {
                pairs.push(Pair { captures: [first, second], connections });
            }
        }
    }
    pairs
}

fn common(first: &[ConnectionSummary], second: &[ConnectionSummary]) -> Vec<[usize; 2]> {
    let mut by_key: FxHashMap<_, Vec<usize>> = FxHashMap::default();
    for (place, summary) in second.iter().enumerate().filter(|(_, summary)| !summary.key.is_udp()) {
        by_key.entry(summary.key).or_default().push(place);
    }
    let found = first.iter().enumerate().filter_map(|(place, summary)| {
        let same = |other: &&usize| is_same(summary, &second[**other]) && near(summary, &second[**other]).is_some();
        by_key.get(&summary.key)?.iter().find(same).map(|other| [place, *other])
    });
    found.collect()
}

/// Whether two captures show the same connection.
fn is_same(first: &ConnectionSummary, second: &ConnectionSummary) -> bool {
    let ways = first.ways.iter().zip(&second.ways);
    ways.clone().all(|(a, b)| !(a.has_syn && b.has_syn) || a.beginning == b.beginning)
        && ways.clone().any(|(a, b)| a.has_syn && b.has_syn || a.payload > 0 && a.overlaps(b))
}

/// The capture that is nearer to the sender, by direction; `None` if both were taken at one place.
fn near(first: &ConnectionSummary, second: &ConnectionSummary) -> Option<[usize; 2]> {
    // One and the same packets tell best: the answer to a SYN comes sooner where it was given.
    let handshakes = [first.opening.to_responder(), second.opening.to_responder()];
    if let ([Some(a), Some(b)], Some(way)) = (handshakes, first.opening.way) {
        if a != b {
            let by_responder = usize::from(b < a);
            let mut near = [1 - by_responder; 2];
            near[1 - way] = by_responder;
            return Some(near);
        }
    }
    let of = |way: usize| match [first.reach(1 - way), second.reach(1 - way), first.reach(way), second.reach(way)] {
        [Some(a), Some(b), ..] if a != b => Some(usize::from(b < a)),
        [_, _, Some(a), Some(b)] if a != b => Some(usize::from(b > a)),
        _ => None,
    };
    let near = [of(0)?, of(1)?];
    (near[0] != near[1]).then_some(near)
}

/// Settles the sides of two captures of the same connections: the one nearer to a sender is not at its receiver.
pub(crate) fn settle_sides(pair: &Pair, surveys: &mut [Survey]) {
    for places in &pair.connections {
        let summaries = [0, 1].map(|number: usize| &surveys[pair.captures[number]].chosen[places[number]]);
        let Some(near) = near(summaries[0], summaries[1]) else { continue };
        let sides = [0, 1].map(|number: usize| {
            [0, 1].map(|way: usize| Some(Side::of(summaries[number], way).beside(near[way] == number)))
        });
        for (number, sides) in sides.into_iter().enumerate() {
            surveys[pair.captures[number]].chosen[places[number]].sides = sides;
        }
    }
}

/// Compares the two captures of a pair, and writes the losses into their tables.
pub(crate) fn compare(
    pair: &Pair,
    sources: &[Source],
    surveys: &[Survey],
    measured: &mut [Measured],
    watch: &mut Watch<'_>,
) -> Result<(), AnalyzeError> {
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
    comparison.finish(pair, measured);
    Ok(())
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
    connections: Vec<PairedConnection<'a>>,
    by_key: FxHashMap<crate::key::Key, Vec<u32>>,
    /// Offset of the second capture's clock from the first's, ns.
    shift_ns: i64,
    /// Packets in one capture only: recent ones, and older ones.
    open: FxHashMap<Mark, Open>,
    before: FxHashMap<Mark, Open>,
    turn: u64,
}

impl<'a> Comparison<'a> {
    fn new(pair: &Pair, surveys: &'a [Survey]) -> Self {
        let chosen = pair.captures.map(|capture| &surveys[capture].chosen);
        let connections: Vec<PairedConnection<'a>> = pair
            .connections
            .iter()
            .filter_map(|places| {
                let summaries = [&chosen[0][places[0]], &chosen[1][places[1]]];
                let near = near(summaries[0], summaries[1])?;
                // Segments are as large as they leave their sender.
                let segment = [0, 1].map(|way: usize| segment(summaries[near[way]], way));
                Some(PairedConnection {
                    summaries,
                    near,
                    segment,
                    history: Default::default(),
                    ways: Default::default(),
                })
            })
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
        let turn = (self.time(side, item).max(0) as u64) / TURN_NS;
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
        let is_near = connection.near[item.way] == side;
        let segment = connection.segment[item.way];
        if tcp.payload == 0 {
            let mark = Mark::of_answer(number, item.way, &tcp);
            return self.count(mark, is_near, item.now, tcp.sequence);
        }
        let mut rest = tcp;
        while rest.payload > 0 {
            let payload = rest.payload.min(segment);
            self.count(Mark::of_data(number, item.way, &rest), is_near, item.now, rest.sequence);
            rest.sequence = rest.sequence.wrapping_add(payload);
            rest.payload -= payload;
        }
    }

    fn count(&mut self, mark: Mark, is_near: bool, at: Time, sequence: u32) {
        let known = self.before.remove(&mark);
        let way = &mut self.connections[mark.connection as usize].ways[usize::from(mark.way)];
        let matches = if mark.is_data { &mut way.data } else { &mut way.others };
        let this = Lost { number: matches.sent, at, sequence };
        let open = self.open.entry(mark).or_insert(known.unwrap_or(Open { balance: 0, first: this, last: this }));
        if is_near {
            matches.sent += 1;
            open.last = this;
        }
        let is_match = if is_near { open.balance < 0 } else { open.balance > 0 };
        if is_match {
            let number = open.last.number;
            let (first, last) = matches.known.unwrap_or((number, number));
            matches.known = Some((first.min(number), last.max(number)));
        }
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
            let way = &mut self.connections[mark.connection as usize].ways[usize::from(mark.way)];
            let matches = if mark.is_data { &mut way.data } else { &mut way.others };
            matches.lost.extend((0..times).map(|_| open.first));
        }
    }

    fn finish(mut self, pair: &Pair, measured: &mut [Measured]) {
        self.settle();
        self.settle();
        for (connection, places) in self.connections.iter_mut().zip(&pair.connections) {
            for (side, capture) in pair.captures.into_iter().enumerate() {
                let Measured { flows, captured, .. } = &mut measured[capture];
                for (name, place, way) in flows.iter() {
                    if *place == places[side] {
                        connection.write(name, *way, connection.near[*way] == side, captured);
                    }
                }
            }
        }
    }
}

impl PairedConnection<'_> {
    /// Writes the losses of one direction into the tables of one capture.
    fn write(&self, flow: &Name, way: usize, is_near: bool, captured: &mut CaptureTables) {
        let (data, answers) = (&self.ways[way], &self.ways[1 - way]);
        let rows = &mut captured.connections;
        let Some(row) = rows.flow.iter().position(|name| name == flow) else { return };
        let lost = data.data.lost();
        rows.matched_packets[row] = Some(data.data.sent());
        rows.matched_lost_packets[row] = Some(lost.len() as u64);
        rows.matched_acknowledgements[row] = Some(answers.others.sent());
        rows.matched_lost_acknowledgements[row] = Some(answers.others.lost().len() as u64);
        let run = rows.run[row];
        if !is_near {
            return;
        }
        let beginning = self.summaries[self.near[way]].ways[way].beginning.unwrap_or_default();
        let mut then = data.data.known.map_or(0, |(first, _)| first);
        for event in lost.chunk_by(|a, b| a.number + 1 == b.number) {
            let first = event[0];
            captured.losses.push(LossRow {
                run,
                flow: flow.clone(),
                t_s: first.at.as_secs_f64(),
                how: "matched".into(),
                packets: event.len() as u32,
                since_packets: first.number.saturating_sub(then),
                // Beyond 4 GiB only where in them.
                offset_bytes: first.sequence.wrapping_sub(beginning).wrapping_sub(1).into(),
            });
            then = first.number + event.len() as u64;
        }
    }
}

impl Matches {
    /// Packets with a known fate.
    fn sent(&self) -> u64 {
        self.known.map_or(0, |(first, last)| last - first + 1)
    }

    /// The lost ones, in order.
    fn lost(&self) -> Vec<Lost> {
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
