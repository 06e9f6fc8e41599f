//! The first pass over a capture: finds its connections, their sizes, and the position of the capture on their paths.
//!
//! The measurements of a flow depend on facts that are known at its end only: its size (phases are shares of it), the
//! direction of the data, and whether the capture was taken near the sender. So a capture is read twice, and only the
//! largest connections are measured. Memory is bounded: an open connection takes a few hundred bytes, and one that has
//! ended is kept only as long as it is among the largest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use perigee_units::Time;
use perigee_wire::{Tcp, Transport};
use rustc_hash::FxHashMap;

use crate::error::AnalyzeError;
use crate::key::Key;
use crate::quic::{spin_bit, LongHeader, SpinBits, VERSIONS};
use crate::side::Side;
use crate::stream::{Counts, Item, Source, Stream, Watch};

/// A connection as the first pass finds it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSummary {
    pub(crate) key: Key,
    /// Numbers of its first and last packet in the capture.
    pub(crate) numbers: (u64, u64),
    pub(crate) first: Time,
    pub(crate) last: Time,
    /// Times of its first and last packet, nanoseconds since 1970, as in the file.
    pub(crate) clock_ns: (u64, u64),
    pub(crate) ways: [DirectionSummary; 2],
    /// The handshake: direction of the first SYN, and times of its packets.
    pub(crate) opening: Handshake,
    /// Place among [`VERSIONS`] of QUIC, which its first datagram says.
    pub(crate) quic: Option<usize>,
    /// Whether a server of QUIC asked its client to begin again.
    pub(crate) has_retry: bool,
    /// Whether it was reset.
    pub(crate) reset: bool,
    /// Per direction, the position of the capture where another capture has determined it.
    pub(crate) sides: [Option<Side>; 2],
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirectionSummary {
    pub(crate) packets: u64,
    /// Bytes of payload in all packets, retransmissions included.
    pub(crate) payload: u64,
    /// Largest payload of a packet.
    pub(crate) largest: u32,
    /// Sequence number before its first byte: that of its SYN, or the one before the lowest in the capture.
    pub(crate) beginning: Option<u32>,
    /// Sequence number after its last byte.
    end: u32,
    /// Bytes from the first to the last, each counted once.
    pub(crate) length: u64,
    pub(crate) has_syn: bool,
    pub(crate) has_fin: bool,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) has_timestamps: bool,
    pub(crate) has_acknowledgements: bool,
    /// Time of the last payload.
    pub(crate) last_payload: Time,
    /// Time of the last new acknowledgement by the other direction.
    pub(crate) last_acknowledged: Time,
    acknowledged: Option<u32>,
    /// The first byte that acknowledgements are about.
    first_acknowledged: Option<u32>,
    /// Bytes acknowledged from there on, and how many of them last.
    acknowledged_bytes: (u64, u64),
    /// Shortest time from a packet of this direction to its echo: to the receiver and back.
    pub(crate) reach: Option<Time>,
    /// Times from packets of this direction to their echoes, for packets sent before echoes of earlier packets came.
    pub(crate) transit: Transit,
    /// The spin bits of QUIC.
    pub(crate) spin: SpinBits,
    waiting: Option<Waiting>,
    echo_waiting: Option<Waiting>,
    /// Number of packets per place of the capture.
    views: [(u32, u64); VIEWS],
}

/// A sequence number awaiting its acknowledgement, or a timestamp awaiting its echo.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u32,
    since: Time,
    /// Whether an earlier one was acknowledged or echoed meanwhile.
    is_passed: bool,
}

/// Mean of times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transit {
    sum_ns: u64,
    count: u64,
}

impl Transit {
    fn add(&mut self, time: Time) {
        self.sum_ns = self.sum_ns.saturating_add(time.as_nanos());
        self.count += 1;
    }

    /// Returns the mean; `None` if there are too few times.
    pub(crate) fn mean(self) -> Option<Time> {
        (self.count >= LEAST_UNDER_WAY).then(|| Time::from_nanos(self.sum_ns / self.count))
    }
}

/// Times of the packets of a handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handshake {
    /// Direction of the first SYN.
    pub(crate) way: Option<usize>,
    /// Number of SYNs in that direction.
    pub(crate) syns: u32,
    pub(crate) first_syn: Option<Time>,
    last_syn: Option<Time>,
    pub(crate) answer: Option<Time>,
    pub(crate) done: Option<Time>,
    /// First data of the end that sent the first SYN, and of the other.
    first_data: [Option<Time>; 2],
}

/// Summary of a capture.
pub(crate) struct Survey {
    pub(crate) counts: Counts,
    /// The largest connections, in the order in which they begin.
    pub(crate) chosen: Vec<ConnectionSummary>,
    /// Number of connections, and how many of them use UDP.
    pub(crate) connections: u64,
    pub(crate) udp: u64,
    /// Connections of QUIC, by version.
    pub(crate) quic: [u64; VERSIONS.len()],
    /// Payload of the connections that were not selected, bytes.
    pub(crate) other_payload: u64,
    /// Connections that were dropped because too many were open at a time.
    pub(crate) pushed_out: u64,
}

/// Reads a capture; keeps the `most` largest connections.
pub(crate) fn survey(source: &Source, most: usize, watch: &mut Watch<'_>) -> Result<Survey, AnalyzeError> {
    let mut table = Table::new(most);
    let mut stream = Stream::open(source)?;
    while let Some(item) = stream.next(watch)? {
        table.packet(&item);
    }
    Ok(table.finish(stream.into_counts()))
}

/// Open connections, and the largest of the ended ones.
struct Table {
    places: FxHashMap<Key, usize>,
    open: Vec<ConnectionSummary>,
    last: Option<(Key, usize)>,
    ended: BinaryHeap<Reverse<BySize>>,
    most: usize,
    survey: Survey,
}

struct BySize(Box<ConnectionSummary>);

impl Table {
    fn new(most: usize) -> Self {
        let counts = Counts::default();
        let survey = Survey {
            counts,
            chosen: Vec::new(),
            connections: 0,
            udp: 0,
            quic: [0; VERSIONS.len()],
            other_payload: 0,
            pushed_out: 0,
        };
        Self { places: FxHashMap::default(), open: Vec::new(), last: None, ended: BinaryHeap::new(), most, survey }
    }

    #[inline]
    fn packet(&mut self, item: &Item) {
        let place = match self.last {
            Some((key, place)) if key == item.key => Some(place),
            _ => self.places.get(&item.key).copied(),
        };
        let place = match place.filter(|place| !self.open[*place].is_over(item)) {
            Some(place) => place,
            None => self.begin(item, place),
        };
        self.last = Some((item.key, place));
        self.open[place].packet(item);
    }

    /// Begins a connection, perhaps in place of one that has ended.
    #[cold]
    fn begin(&mut self, item: &Item, place: Option<usize>) -> usize {
        if let Some(place) = place {
            let old = std::mem::replace(&mut self.open[place], ConnectionSummary::new(item));
            self.end(old);
            return place;
        }
        if self.open.len() >= MOST_OPEN {
            self.make_room();
        }
        let place = self.open.len();
        self.open.push(ConnectionSummary::new(item));
        self.places.insert(item.key, place);
        place
    }

    /// Ends the half of the connections with the longest silence.
    fn make_room(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        open.sort_unstable_by_key(|summary| summary.numbers.1);
        let kept = open.split_off(MOST_OPEN / 2);
        let still_open = open.iter().filter(|summary| !summary.is_closed()).count();
        self.survey.pushed_out += still_open as u64;
        for summary in open {
            self.end(summary);
        }
        self.places = kept.iter().enumerate().map(|(place, summary)| (summary.key, place)).collect();
        self.open = kept;
        self.last = None;
    }

    fn end(&mut self, summary: ConnectionSummary) {
        self.survey.connections += 1;
        self.survey.udp += u64::from(summary.key.is_udp());
        if let Some(version) = summary.quic {
            self.survey.quic[version] += 1;
        }
        self.ended.push(Reverse(BySize(Box::new(summary))));
        if self.ended.len() > self.most
            && let Some(Reverse(BySize(least))) = self.ended.pop()
        {
            self.survey.other_payload += least.payload();
        }
    }

    fn finish(mut self, counts: Counts) -> Survey {
        for summary in std::mem::take(&mut self.open) {
            self.end(summary);
        }
        self.survey.chosen = self.ended.into_iter().map(|Reverse(BySize(summary))| *summary).collect();
        self.survey.chosen.sort_unstable_by_key(|summary| summary.numbers.0);
        Survey { counts, ..self.survey }
    }
}

impl ConnectionSummary {
    fn new(item: &Item) -> Self {
        Self {
            key: item.key,
            numbers: (item.number, item.number),
            first: item.now,
            last: item.now,
            clock_ns: (item.at_ns, item.at_ns),
            ways: [DirectionSummary::default(), DirectionSummary::default()],
            opening: Handshake::default(),
            quic: None,
            has_retry: false,
            reset: false,
            sides: [None; 2],
        }
    }

    /// Whether a packet between the same endpoints belongs to a new connection: it is a SYN, or follows a long silence.
    #[inline]
    fn is_over(&self, item: &Item) -> bool {
        if item.now.checked_sub(self.last).is_some_and(|silence| silence > SILENCE) {
            return true;
        }
        let Transport::Tcp(tcp) = item.packet.transport else { return false };
        let way = &self.ways[item.way];
        tcp.syn && way.packets > 0 && way.beginning != Some(tcp.sequence)
    }

    /// Whether both ends have sent a FIN.
    pub(crate) fn is_closed(&self) -> bool {
        self.reset || self.ways.iter().all(|way| way.has_fin)
    }

    /// Bytes of payload both ways.
    pub(crate) fn payload(&self) -> u64 {
        self.ways[0].carried() + self.ways[1].carried()
    }

    /// Whether the capture has packets of one direction only.
    pub(crate) fn is_one_way(&self) -> bool {
        self.ways.iter().any(|way| way.packets == 0)
    }

    #[inline]
    fn packet(&mut self, item: &Item) {
        self.numbers.1 = item.number;
        self.last = item.now;
        self.clock_ns.1 = item.at_ns;
        self.ways[item.way].seen_at(item.view);
        match item.packet.transport {
            Transport::Tcp(tcp) => self.segment(item.now, item.way, &tcp),
            Transport::Udp { payload, number, .. } => {
                self.quic(item.now, item.way, number.and_then(LongHeader::of));
                if let (Some(_), Some(bit)) = (self.quic, number.and_then(spin_bit)) {
                    self.ways[item.way].spin.see(bit);
                }
                self.ways[item.way].payload(item.now, payload);
            }
            Transport::Echo { .. } | Transport::Other => {}
        }
    }

    /// The handshake of QUIC as the outside shows it: the opener's first datagram, the answer, and the opener's next one.
    fn quic(&mut self, now: Time, at: usize, header: Option<LongHeader>) {
        let opening = &mut self.opening;
        if self.numbers.0 == self.numbers.1
            && let Some(header) = header
        {
            self.quic = Some(header.version);
            opening.syn(now, at, false);
        } else if self.quic.is_some() && opening.way != Some(at) {
            if header.is_some_and(|header| header.is_retry) {
                self.has_retry = true;
            } else {
                opening.answer.get_or_insert(now);
            }
        } else if self.quic.is_some() && opening.answer.is_some() {
            opening.done.get_or_insert(now);
        }
    }

    fn segment(&mut self, now: Time, at: usize, tcp: &Tcp) {
        self.reset |= tcp.rst;
        let (way, other) = match &mut self.ways {
            [first, second] if at == 0 => (first, second),
            [first, second] => (second, first),
        };
        if tcp.syn {
            self.opening.syn(now, at, tcp.acknowledgement.is_some());
            if !way.has_syn {
                (way.has_syn, way.beginning, way.end) = (true, Some(tcp.sequence), tcp.sequence.wrapping_add(1));
            }
            (way.mss, way.window_scale) = (tcp.opening.mss, tcp.opening.window_scale);
            way.sack_permitted = tcp.opening.sack_permitted;
        } else if self.opening.answer.is_some() && self.opening.done.is_none() && self.opening.way == Some(at) {
            self.opening.done = Some(now);
        }
        way.has_timestamps |= tcp.timestamps.is_some();
        way.has_fin |= tcp.fin;
        way.sequence(tcp);
        way.payload(now, tcp.payload);
        if tcp.payload > 0
            && let Some(opener) = self.opening.way
        {
            self.opening.first_data[usize::from(opener != at)].get_or_insert(now);
        }
        if let (Some(number), false) = (tcp.acknowledgement, tcp.syn) {
            other.acknowledged_by(now, number);
        }
        // The echoed timestamp, and the packet's own timestamp.
        if let Some((value, echo)) = tcp.timestamps {
            if let Some(waiting) = other.echo_waiting.as_mut().filter(|_| tcp.acknowledgement.is_some()) {
                if echo.wrapping_sub(waiting.number) as i32 >= 0 {
                    let waiting = *waiting;
                    other.reached(now, waiting);
                    other.echo_waiting = None;
                } else {
                    // The receiver may have delayed an acknowledgement that carries no data.
                    waiting.is_passed |= tcp.payload > 0;
                }
            }
            way.echo_waiting.get_or_insert(Waiting { number: value, since: now, is_passed: false });
        }
        if tcp.payload > 0 && way.waiting.is_none() {
            let number = tcp.sequence.wrapping_add(tcp.payload);
            way.waiting = Some(Waiting { number, since: now, is_passed: false });
        }
    }

    /// The place with the packets of a direction that count; `None`: those of all places. Several places with as many packets either
    /// have the same packets, and then there is twice the data, or share them.
    pub(crate) fn view(&self, way: usize) -> Option<u32> {
        let own = &self.ways[way];
        let with_data = if own.payload > 0 { own } else { &self.ways[1 - way] };
        let is_twice = self.key.is_udp() || with_data.payload * 2 > with_data.length * 3;
        (own.has_like_views() && is_twice).then(|| own.main_view())
    }

    /// Shortest known time from the capture to a direction's receiver and back.
    pub(crate) fn reach(&self, way: usize) -> Option<Time> {
        let opening = &self.opening;
        let by_handshake = match opening.way {
            Some(first) if first == way => opening.to_responder(),
            Some(_) => opening.to_opener(),
            None => None,
        };
        [self.ways[way].reach, by_handshake].into_iter().flatten().min()
    }
}

impl DirectionSummary {
    /// The place with most packets of the direction.
    fn main_view(&self) -> u32 {
        self.views.iter().max_by_key(|(view, packets)| (*packets, Reverse(*view))).map_or(0, |(view, _)| *view)
    }

    /// Whether several places show about as many packets.
    fn has_like_views(&self) -> bool {
        let most = self.views.iter().map(|(_, packets)| *packets).max().unwrap_or_default();
        self.views.iter().filter(|(_, packets)| packets * 5 >= most * 4 && *packets > 0).count() > 1
    }

    /// Whether two captures of this direction contain some of the same bytes.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (Some(first), Some(second)) = (self.beginning, other.beginning) else { return false };
        let apart = i64::from(second.wrapping_sub(first) as i32);
        apart < self.length as i64 && -apart < other.length as i64
    }

    #[inline]
    fn seen_at(&mut self, view: u32) {
        self.packets += 1;
        for (known, packets) in &mut self.views {
            if *packets == 0 || *known == view {
                (*known, *packets) = (view, *packets + 1);
                return;
            }
        }
    }

    fn payload(&mut self, now: Time, payload: u32) {
        if payload > 0 {
            self.payload += u64::from(payload);
            self.largest = self.largest.max(payload);
            self.last_payload = now;
        }
    }

    fn count_acknowledged(&mut self, number: u32) {
        let of_syn = self.beginning.filter(|_| self.has_syn).map(|beginning| beginning.wrapping_add(1));
        let before = *self.first_acknowledged.get_or_insert(of_syn.unwrap_or(number));
        let step = u64::from(number.wrapping_sub(self.acknowledged.unwrap_or(before)));
        if step <= LARGEST_WINDOW {
            self.acknowledged_bytes = (self.acknowledged_bytes.0 + step, step);
        }
    }

    /// The number before its first byte; where only its acknowledgements are in the capture, they tell.
    pub(crate) fn number_before(&self) -> u32 {
        self.beginning.or(self.first_acknowledged.map(|number| number.wrapping_sub(1))).unwrap_or_default()
    }

    /// Whether its data passed elsewhere, and only their acknowledgements are in the capture.
    pub(crate) fn is_unseen(&self) -> bool {
        self.payload == 0 && self.acknowledged_payload() > 0
    }

    /// Payload that it carried: in the capture, or acknowledged where its data are not in the capture.
    pub(crate) fn carried(&self) -> u64 {
        if self.payload > 0 {
            self.payload
        } else {
            self.acknowledged_payload()
        }
    }

    /// Bytes acknowledged. One that is acknowledged last, for itself, is the FIN.
    fn acknowledged_payload(&self) -> u64 {
        let (bytes, last) = self.acknowledged_bytes;
        bytes - u64::from(last == 1)
    }

    /// Updates the first and last sequence number of the direction.
    fn sequence(&mut self, tcp: &Tcp) {
        if tcp.syn {
            return;
        }
        let before = tcp.sequence.wrapping_sub(1);
        let beginning = *self.beginning.get_or_insert_with(|| {
            self.end = tcp.sequence;
            before
        });
        let is_early = self.packets < EARLY && !self.has_syn;
        let earlier = beginning.wrapping_sub(before) as i32;
        if is_early && earlier > 0 {
            self.beginning = Some(before);
            self.length += earlier as u64;
        }
        let end = tcp.sequence.wrapping_add(tcp.payload);
        let longer = end.wrapping_sub(self.end) as i32;
        // After the FIN, packets without data have the sequence number after it.
        if longer > 0 && tcp.payload > 0 {
            self.end = end;
            self.length += longer as u64;
        }
    }

    fn acknowledged_by(&mut self, now: Time, number: u32) {
        self.has_acknowledgements = true;
        let is_news = self.acknowledged.is_none_or(|known| (number.wrapping_sub(known) as i32) > 0);
        if is_news {
            self.count_acknowledged(number);
            self.acknowledged = Some(number);
            self.last_acknowledged = now;
        }
        let Some(waiting) = &mut self.waiting else { return };
        if number.wrapping_sub(waiting.number) as i32 >= 0 {
            let waiting = *waiting;
            self.reached(now, waiting);
            self.waiting = None;
        } else {
            waiting.is_passed |= is_news;
        }
    }

    fn reached(&mut self, now: Time, waiting: Waiting) {
        let took = now - waiting.since;
        self.reach = Some(self.reach.map_or(took, |least| least.min(took)));
        if waiting.is_passed {
            self.transit.add(took);
        }
    }
}

impl Handshake {
    fn syn(&mut self, now: Time, way: usize, is_answer: bool) {
        if is_answer {
            self.answer = Some(now);
            self.way.get_or_insert(1 - way);
        } else {
            self.way.get_or_insert(way);
            self.syns += 1;
            self.first_syn.get_or_insert(now);
            self.last_syn = Some(now);
        }
    }

    /// Time from the capture to the listening end and back.
    pub(crate) fn to_responder(self) -> Option<Time> {
        self.answer?.checked_sub(self.last_syn?)
    }

    /// Time from the capture to the connecting end and back.
    pub(crate) fn to_opener(self) -> Option<Time> {
        self.done?.checked_sub(self.answer?)
    }

    /// Time from the opener's first data, or from the handshake's end where the other end speaks first, to that end's first data.
    pub(crate) fn first_answer(self) -> Option<Time> {
        let [asked, answered] = self.first_data;
        let answered = answered?;
        answered.checked_sub(asked.filter(|asked| *asked <= answered).or(self.done)?)
    }

    /// Duration of the handshake, from the first SYN, at the connecting end.
    pub(crate) fn length(self) -> Option<Time> {
        Some(self.answer?.checked_sub(self.first_syn?)? + self.to_opener()?)
    }
}

impl Ord for BySize {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by = |summary: &ConnectionSummary| (summary.payload(), Reverse(summary.numbers.0));
        by(&self.0).cmp(&by(&other.0))
    }
}

impl PartialOrd for BySize {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for BySize {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for BySize {}

/// Most connections followed at a time.
pub(crate) const MOST_OPEN: usize = 1 << 17;
/// A connection is over after this time without a packet.
const SILENCE: Time = Time::from_secs(3600);
/// Packets for which reordering may still lower the first sequence number, where the capture lacks the beginning.
const EARLY: u64 = 1000;
/// Largest window (RFC 7323, section 2.3): no more is acknowledged at a time.
const LARGEST_WINDOW: u64 = 1 << 30;
/// Least number of times that make a mean; fewer may be accidental.
const LEAST_UNDER_WAY: u64 = 5;
/// Most places in one capture at which packets of a direction are counted.
const VIEWS: usize = 4;
