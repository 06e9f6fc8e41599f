//! Two endpoints over a path in virtual time: a rate, a delay and a drop-tail queue towards the client, and losses as the test says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use perigee_cc::Selected;
use perigee_quic::{Config, Ecn, Endpoint, Event};
use perigee_units::{Bytes, Rate, Time};

/// The path between a client and a server.
pub(crate) struct Path {
    pub(crate) rate: Rate,
    /// One way.
    pub(crate) delay: Time,
    /// Size of the queue towards the client.
    pub(crate) queue: Bytes,
    /// Nothing passes in this time.
    pub(crate) silence: Range<Time>,
    /// Whether the datagram of this number towards the client is lost.
    pub(crate) loses: fn(u64) -> bool,
}

/// A download over a path.
pub(crate) struct Download {
    pub(crate) ends: [Endpoint; 2],
    /// When the client had all, if it ever had.
    pub(crate) done: Option<Time>,
    /// When each datagram left: by the client, by the server.
    pub(crate) departures: [Vec<Time>; 2],
    pub(crate) dropped: u64,
    /// Hash of time, side and length of each datagram.
    pub(crate) digest: u64,
    pub(crate) events: [Vec<Event>; 2],
}

/// An end with the stack's defaults and this algorithm.
pub(crate) fn with(cc: &str) -> Config {
    Config::with(Selected::parse(cc, &[]).expect("a known algorithm"))
}

/// An end with windows that hold nothing back, which waits for ever.
pub(crate) fn unbounded(cc: &str) -> Config {
    Config { send_window: 1 << 40, stream_window: 1 << 40, idle_timeout: None, ..with(cc) }
}

/// Downloads `bytes` from a server on one stream, which the server opens; ends at the limit at the latest.
pub(crate) fn download(path: &Path, configs: [&Config; 2], bytes: u64, limit: Time) -> Download {
    let [client, server] = configs;
    let mut run = Run {
        path,
        links: [Link::default(), Link::default()],
        arrivals: BinaryHeap::new(),
        got: 0,
        bytes,
        download: Download {
            ends: [Endpoint::client(client, 1), Endpoint::server(server, 2)],
            done: None,
            departures: [Vec::new(), Vec::new()],
            dropped: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            events: [Vec::new(), Vec::new()],
        },
    };
    run.carry_out(limit);
    run.download
}

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

struct Run<'a> {
    path: &'a Path,
    links: [Link; 2],
    arrivals: BinaryHeap<Reverse<Arrival>>,
    got: u64,
    bytes: u64,
    download: Download,
}

/// Time and order of an arrival, the end, and the datagram.
type Arrival = (Time, u64, usize, Vec<u8>);

#[derive(Default)]
struct Link {
    busy_until: Time,
    packets: u64,
}

impl Run<'_> {
    fn carry_out(&mut self, limit: Time) {
        self.download.ends[CLIENT].open(Time::ZERO);
        self.turn(CLIENT, Time::ZERO);
        while self.download.done.is_none() && self.download.ends[CLIENT].closed().is_none() {
            let timers = [CLIENT, SERVER].map(|end| self.download.ends[end].next_timer().unwrap_or(Time::MAX));
            let arrival = self.arrivals.peek().map_or(Time::MAX, |Reverse((at, ..))| *at);
            let now = timers[0].min(timers[1]).min(arrival);
            if now > limit {
                return;
            }
            let end = if arrival == now {
                let Some(Reverse((_, _, end, datagram))) = self.arrivals.pop() else { return };
                self.download.ends[end].on_datagram(now, &datagram, Ecn::NotEct);
                end
            } else {
                let end = usize::from(timers[CLIENT] > now);
                self.download.ends[end].on_timer(now);
                end
            };
            self.turn(end, now);
        }
    }

    fn turn(&mut self, end: usize, now: Time) {
        while let Some(event) = self.download.ends[end].poll_event() {
            self.take(end, now, &event);
            self.download.events[end].push(event);
        }
        let mut datagram = Vec::new();
        while self.download.ends[end].poll_transmit(now, &mut datagram).is_some() {
            self.send(end, now, std::mem::take(&mut datagram));
        }
    }

    fn take(&mut self, end: usize, now: Time, event: &Event) {
        let this = &mut self.download.ends[end];
        match event {
            Event::Connected if end == SERVER => {
                let stream = this.open_stream().expect("the client allows a stream");
                this.write(stream, self.bytes);
                this.finish(stream);
            }
            Event::Received(stream) if end == CLIENT => {
                self.got = this.received(*stream);
                if self.got >= self.bytes {
                    self.download.done = Some(now);
                }
            }
            _ => {}
        }
    }

    fn send(&mut self, end: usize, now: Time, datagram: Vec<u8>) {
        let len = datagram.len() as u64;
        self.download.departures[end].push(now);
        let said = now.as_nanos() ^ len << 48 ^ end as u64;
        self.download.digest = (self.download.digest ^ said).wrapping_mul(0x0000_0100_0000_01b3);
        let link = &mut self.links[end];
        let number = link.packets;
        link.packets += 1;
        let waiting = self.path.rate.bytes_in(link.busy_until.checked_sub(now).unwrap_or(Time::ZERO));
        let wire = len + HEADERS;
        let overflows = end == SERVER && waiting.as_u64() + wire > self.path.queue.as_u64();
        if overflows || self.path.silence.contains(&now) || (end == SERVER && (self.path.loses)(number)) {
            self.download.dropped += 1;
            return;
        }
        link.busy_until = link.busy_until.max(now) + self.path.rate.time_to_send(Bytes::new(wire));
        let arrival = link.busy_until + self.path.delay;
        self.arrivals.push(Reverse((arrival, self.download.departures[end].len() as u64, 1 - end, datagram)));
    }
}

/// Headers of IPv4 and UDP, bytes.
const HEADERS: u64 = 28;
