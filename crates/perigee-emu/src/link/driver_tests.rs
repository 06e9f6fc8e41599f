//! The driver on a simulated wire and clock.

use std::collections::VecDeque;

use perigee_study::profile;
use perigee_units::Stream;

use super::*;

/// Packets that arrive at given times, and a clock that oversleeps.
struct Fake {
    now: Time,
    arrivals: VecDeque<(Time, Vec<u8>)>,
    oversleep: Stream,
    most_ns: u64,
    /// Packets read, with the time the driver saw.
    taken: Vec<(Time, usize)>,
    /// Packets written, with their time.
    sent: Vec<(Time, Vec<u8>)>,
}

impl Wire for Fake {
    fn now(&mut self) -> Time {
        // Each reading of the clock takes time.
        self.now += Time::from_nanos(40);
        self.now
    }

    fn receive(&mut self, end: End, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.arrivals.front() {
            Some((at, _)) if end == 0 && *at <= self.now => {}
            _ => return Ok(None),
        }
        let Some((_, packet)) = self.arrivals.pop_front() else { return Ok(None) };
        buffer[..packet.len()].copy_from_slice(&packet);
        // The driver reads the clock next and gets this time.
        self.taken.push((self.now + Time::from_nanos(40), packet.len()));
        Ok(Some(packet.len()))
    }

    fn send(&mut self, end: End, packet: &[u8], _late: Time) -> io::Result<()> {
        assert_eq!(end, 1);
        self.sent.push((self.now, packet.to_vec()));
        Ok(())
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        let arrival = self.arrivals.front().map(|(at, _)| *at);
        if let Some(due) = [until, arrival].into_iter().flatten().min() {
            self.now = self.now.max(due) + Time::from_nanos(self.oversleep.below(self.most_ns.max(1)));
        }
        Ok(())
    }
}

/// An IPv4 packet of this size with a distinct identification.
fn ipv4(size: usize, id: u32) -> Vec<u8> {
    let mut packet = vec![0; size];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(size as u16).to_be_bytes());
    packet[20..24].copy_from_slice(&id.to_be_bytes());
    packet
}

fn arrivals(count: u32) -> VecDeque<(Time, Vec<u8>)> {
    let mut stream = Stream::new(7, "arrivals");
    let mut at = Time::ZERO;
    let mut next = |id| {
        at += Time::from_nanos(stream.below(200_000));
        (at, ipv4(40 + stream.below(1461) as usize, id))
    };
    (0..count).map(&mut next).collect()
}

const LOSSY: &str = r#"
name = "lossy"
title = "All processes at once"
source = "none"
[link]
rate = {kind = "fluctuating", mean = "60 Mbit/s", sd = "20 Mbit/s", min = "20 Mbit/s", max = "90 Mbit/s", every = "100 ms", memory = "1 s"}
delay = { kind = "jitter", base = "20 ms", every = "10 ms", body = { kind = "uniform", width = "6 ms" } }
queue = "120 kB"
loss = "1 %"
"#;

#[test]
fn a_clock_that_oversleeps_changes_no_decision_of_the_link() {
    let spec = profile::parse(LOSSY, "lossy.toml", &mut |_| Err("no files".into())).expect("a profile").down;
    for most_ns in [0, 100_000, 30_000_000] {
        let mut wire = Fake {
            now: Time::ZERO,
            arrivals: arrivals(5000),
            oversleep: Stream::new(3, "oversleep"),
            most_ns,
            taken: Vec::new(),
            sent: Vec::new(),
        };
        let direction = |from, to, name| DirectedLink { from, to, spec: &spec, name, gives_up_waiting: false };
        let mut driver = Driver::new(&[direction(0, 1, "satellite.down"), direction(1, 0, "satellite.up")], 11, 1500);
        while wire.arrivals.len() + driver.directions[0].link.in_flight() > 0 {
            let mut rounds = 0..100;
            driver.run(&mut wire, &mut || rounds.next().is_some()).expect("a wire");
        }
        // As in the simulator: the same arrivals in the same order, without a clock.
        let mut link: Link<usize> = Link::new(&spec, 11, "satellite.down");
        for (at, bytes) in &wire.taken {
            let packet = Packet { bytes: *bytes as u32, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: 0 };
            link.offer(*at, packet);
        }
        let report = driver.reports()[0];
        assert_eq!(report.counters, link.counters(), "oversleeping up to {most_ns} ns");
        let mut departures = Vec::new();
        while let Some(Exit::Delivered(delivery)) = link.poll(Time::from_secs(1000)) {
            departures.push((delivery.at, delivery.packet.bytes as usize));
        }
        assert_eq!(wire.sent.len(), departures.len());
        let mut last = Time::ZERO;
        for ((sent_at, packet), (due, bytes)) in wire.sent.iter().zip(&departures) {
            assert_eq!(packet.len(), *bytes);
            assert!(sent_at >= due && *sent_at >= last, "released before its instant, or out of order");
            last = *sent_at;
            let late = sent_at.checked_sub(*due).expect("not early");
            assert!(late.as_nanos() <= most_ns + 1_000_000, "{late} late with oversleeping up to {most_ns} ns");
        }
        assert!(report.counters.dropped.iter().sum::<u64>() > 0, "the link dropped nothing: no test of drops");
        assert!(report.lateness_max >= report.lateness_p99 && report.lateness_p99 >= report.lateness_p50);
    }
}

/// Counts the calls of an observer: turns, looks before offers, offers, drops, releases.
#[derive(Default)]
struct Counting {
    told: [u64; 5],
    turns: u64,
}

impl Observer for Counting {
    fn offered(&mut self, _direction: usize, _now: Time, _packet: &[u8]) {
        self.told[2] += 1;
    }

    fn dropped(&mut self, _direction: usize, _now: Time, _packet: &[u8]) {
        self.told[3] += 1;
    }

    fn released(&mut self, _direction: usize, _now: Time, _packet: &[u8]) {
        self.told[4] += 1;
    }

    fn before(&mut self, _direction: usize, _now: Time, _link: &mut Link<BufferedPacket>) {
        self.told[1] += 1;
    }

    fn turn(&mut self, _now: Time) -> ControlFlow<(), Option<Time>> {
        self.told[0] += 1;
        if self.told[0] < self.turns {
            ControlFlow::Continue(None)
        } else {
            ControlFlow::Break(())
        }
    }
}

#[test]
fn two_observers_get_the_same_calls() {
    let spec = profile::parse(LOSSY, "lossy.toml", &mut |_| Err("no files".into())).expect("a profile").down;
    let mut wire = Fake {
        now: Time::ZERO,
        arrivals: arrivals(5000),
        oversleep: Stream::new(3, "oversleep"),
        most_ns: 0,
        taken: Vec::new(),
        sent: Vec::new(),
    };
    let direction = |from, to, name| DirectedLink { from, to, spec: &spec, name, gives_up_waiting: false };
    let mut driver = Driver::new(&[direction(0, 1, "satellite.down"), direction(1, 0, "satellite.up")], 11, 1500);
    let counting = || Counting { turns: 20_000, ..Counting::default() };
    let (mut first, mut second) = (counting(), counting());
    driver.run(&mut wire, &mut ObserverPair(&mut first, &mut second)).expect("a wire");
    assert!(first.told.iter().all(|count| *count > 0), "{:?}", first.told);
    assert_eq!(first.told, second.told);
}

#[test]
fn buffers_are_reused() {
    let mut buffers = Buffers::new(1500);
    let slots: Vec<_> = (0..300).map(|_| buffers.borrow()).collect();
    assert_eq!(slots.iter().collect::<std::collections::BTreeSet<_>>().len(), 300);
    buffers.bytes(slots[299])[0] = 9;
    for slot in slots {
        buffers.give_back(slot);
    }
    let blocks = buffers.blocks.len();
    let again: Vec<_> = (0..512).map(|_| buffers.borrow()).collect();
    assert_eq!((blocks, buffers.blocks.len(), again.len()), (2, 2, 512));
}

/// Notes dropped packets, and ends after a second.
#[derive(Default)]
struct Dropped(Vec<Vec<u8>>);

impl Observer for Dropped {
    fn dropped(&mut self, _direction: usize, _now: Time, packet: &[u8]) {
        self.0.push(packet.to_vec());
    }

    fn turn(&mut self, now: Time) -> ControlFlow<(), Option<Time>> {
        let end = Time::from_secs(1);
        if now < end {
            ControlFlow::Continue(Some(end))
        } else {
            ControlFlow::Break(())
        }
    }
}

#[test]
fn packets_that_wait_are_moved_or_lost_at_the_instant_of_the_change_however_late_the_driver_wakes() {
    let spec = |mbps| LinkSpec::constant(perigee_units::Rate::from_mbps(mbps), Time::ZERO);
    let (slow, fast) = (spec(0.12), spec(12.0));
    let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]];
    let packet = |id, to: [u8; 4]| {
        let mut packet = ipv4(1500, id);
        packet[16..20].copy_from_slice(&to);
        packet
    };
    for (are_lost, most_ns) in [(false, 0), (true, 0), (false, 30_000_000), (true, 30_000_000)] {
        let packets = [a, b, a, b, a].into_iter().zip(0..).map(|(to, id)| (Time::ZERO, packet(id, to)));
        let mut wire = Fake {
            now: Time::ZERO,
            arrivals: packets.collect(),
            oversleep: Stream::new(3, "oversleep"),
            most_ns,
            taken: Vec::new(),
            sent: Vec::new(),
        };
        let direction = |from, spec, name| DirectedLink { from, to: 1, spec, name, gives_up_waiting: true };
        let mut driver = Driver::new(&[direction(0, &slow, "old.down"), direction(2, &fast, "new.down")], 1, 1500);
        let at = Time::from_millis(150);
        driver.change_queues([QueueChange { at, from: 0, to: 1, addresses: vec![IpAddr::from(a)], are_lost }]);
        let mut observer = Dropped::default();
        driver.run(&mut wire, &mut observer).expect("the wire holds");
        let id = |packet: &Vec<u8>| packet[23];
        let sent: Vec<u8> = wire.sent.iter().map(|(_, packet)| id(packet)).collect();
        let dropped: Vec<u8> = observer.0.iter().map(id).collect();
        // Each takes 100 ms on the old link: the second is in service at the change.
        if are_lost {
            assert_eq!((&sent[..], &dropped[..]), (&[0, 1, 3][..], &[2, 4][..]));
        } else {
            assert_eq!((&sent[..], &dropped[..]), (&[0, 2, 4, 1, 3][..], &[][..]));
            let moved = driver.reports()[1];
            assert_eq!(moved.counters.delivered_packets, 2);
            assert!((151..=152).contains(&moved.delay_mean.as_millis()), "dated to the change: {:?}", moved.delay_mean);
        }
        assert_eq!(driver.reports()[0].counters.dropped_packets(), if are_lost { 2 } else { 0 });
        assert_eq!(driver.buffers.free.len(), driver.buffers.blocks.len() * BLOCK, "every buffer is given back");
    }
}
