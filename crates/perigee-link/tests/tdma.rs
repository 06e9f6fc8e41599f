//! Laws of bandwidth on demand, and each packet's departure compared with an independent, simple implementation.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use std::collections::VecDeque;
use std::sync::Arc;

use perigee_link::{
    Ecn, Exit, Follows, Link, LinkSpec, Offered, Packet, QueueSpec, RateSpec, Requests, TdmaSpec, TerminalOf,
};
use perigee_units::{Bytes, Positions, Rate, Ratio, Stream, Time};
use proptest::prelude::*;

pub(crate) const SEED: u64 = 7;

pub(crate) fn ms(t: u64) -> Time {
    Time::from_millis(t)
}

pub(crate) fn spec(tdma: &TdmaSpec) -> LinkSpec {
    LinkSpec { rate: RateSpec::Tdma(Arc::new(tdma.clone())), ..LinkSpec::constant(Rate::ZERO, Time::ZERO) }
}

pub(crate) fn link(tdma: &TdmaSpec) -> Link<usize> {
    Link::new(&spec(tdma), SEED, "up")
}

/// A packet: arrival time, flow, size.
pub(crate) type Arrival = (Time, u32, u32);

pub(crate) fn offer(link: &mut Link<usize>, number: usize, (at, flow, bytes): Arrival) -> Offered {
    link.offer(at, Packet { bytes, flow, ecn: Ecn::NotCapable, is_low: false, token: number })
}

/// Number, flow, size and delivery time of each packet delivered by `until`.
pub(crate) fn delivered(link: &mut Link<usize>, until: Time) -> Vec<(usize, u32, u32, Time)> {
    let exits = std::iter::from_fn(|| link.poll(until));
    exits
        .map(|exit| match exit {
            Exit::Delivered(d) => (d.packet.token, d.packet.flow, d.packet.bytes, d.at),
            Exit::Dropped(_) => panic!("a packet was lost on a link without loss"),
        })
        .collect()
}

pub(crate) fn departures(tdma: &TdmaSpec, arrivals: &[Arrival]) -> Vec<(usize, u32, u32, Time)> {
    let mut link = link(tdma);
    for (i, arrival) in arrivals.iter().enumerate() {
        assert_eq!(offer(&mut link, i, *arrival), Offered::Queued);
    }
    let last = arrivals.last().map_or(Time::ZERO, |(at, ..)| *at);
    delivered(&mut link, last + Time::from_secs(1_000))
}

/// Packets of one size at a constant interval.
pub(crate) fn steady(flow: u32, bytes: u32, from: Time, every: Time, count: u64) -> Vec<Arrival> {
    (0..count).map(|i| (from + every * i, flow, bytes)).collect()
}

fn channels() -> impl Strategy<Value = TdmaSpec> {
    let frame = (100u64..400, 1u32..4, 1u32..12, 1u32..4, 300u64..1600);
    let demand = (1u32..5, any::<bool>(), 0u32..3, any::<bool>(), prop_oneof![Just(0), 0u64..500_000], 0u64..900);
    let requests = prop_oneof![Just(Requests::Rate), Just(Requests::Volume), Just(Requests::RateAndVolume)];
    let requests = (requests, prop_oneof![Just(Follows::Arrivals), Just(Follows::Growth)]);
    let memory = (prop_oneof![Just(0), 50u64..2_000], prop::option::of(50u64..2_000));
    let covers = (prop::option::of(50u64..3_000), memory, prop_oneof![Just(0.0), 0.0..0.5]);
    let frame = (frame, any::<bool>(), (0u32..12, prop_oneof![Just(0), 0u32..12]));
    (frame, demand, (requests, covers), prop::option::of(1u32..8), prop::option::of(5u64..100)).prop_map(
        |(frame, demand, ((requests, follows), covers), most, slow)| {
            let (drain, (memory, memory_falling), margin) = covers;
            let ((superframe, multiframes, in_line, carriers, payload), by_clock, (place, moves)) = frame;
            let (terminals, by_flow, fixed, free, background, delay) = demand;
            let slots = in_line * carriers;
            // Rate requests alone never request the rest of a backlog, and rates are granted before volumes.
            let least = u32::from(requests == Requests::Rate || background > 0);
            let terminals = terminals.min(slots);
            TdmaSpec {
                superframe: ms(superframe),
                multiframes,
                slots,
                carriers,
                payload: Bytes::new(payload),
                slow_payload: slow.map(|percent| Bytes::new(payload * percent / 100)),
                guard: Time::from_micros(100),
                clock: by_clock.then(|| "mesh".to_owned()),
                place: place % in_line,
                terminals,
                terminal_of: if by_flow { TerminalOf::Flow } else { TerminalOf::Link },
                fixed: fixed.max(least).min(slots / terminals).min(in_line),
                most: most.map(|most| most.max(fixed.max(least)).min(in_line)),
                requests,
                drain: drain.map(ms),
                memory: ms(memory),
                memory_falling: memory_falling.map(ms),
                margin: Ratio::new(margin).unwrap(),
                free,
                background: Rate::from_bps(background),
                follows,
                busy: Time::ZERO,
                idle: Time::ZERO,
                moves: moves % in_line,
                processing: ms(delay / 3),
                assignment: ms(delay / 3),
                propagation: ms(delay - 2 * (delay / 3)),
            }
        },
    )
}

/// Channels whose other terminals request at times only, if they request.
fn busy_channels() -> impl Strategy<Value = TdmaSpec> {
    (channels(), 1u64..2_000, 1u64..2_000).prop_map(|(tdma, busy, idle)| match tdma.background.as_bps() {
        0 => tdma,
        _ => TdmaSpec { busy: ms(busy), idle: ms(idle), ..tdma },
    })
}

/// Random arrivals within two seconds, in time order.
fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    prop::collection::vec((0u64..2_000_000, 0u32..4, 40u32..1500), 1..40).prop_map(|packets| {
        let mut packets: Vec<Arrival> =
            packets.into_iter().map(|(at, flow, bytes)| (Time::from_micros(at), flow, bytes)).collect();
        packets.sort_by_key(|(at, ..)| *at);
        packets
    })
}

/// An independent implementation, slot by slot, in whole nanoseconds of the channel's clock.
struct Oracle<'a> {
    tdma: &'a TdmaSpec,
    arrivals: Vec<Arrival>,
    queues: Vec<VecDeque<(usize, u64)>>,
    /// Units by super-frame and terminal.
    plans: Vec<Vec<u64>>,
    left_at: Vec<(usize, u64)>,
    /// Bytes that have left each terminal since its last request.
    sent: Vec<u64>,
}

impl<'a> Oracle<'a> {
    fn departures(tdma: &TdmaSpec, arrivals: &[Arrival]) -> Vec<(usize, Time)> {
        let (mut oracle, shift) = Oracle::after(tdma, arrivals);
        oracle.left_at.sort_unstable();
        oracle.left_at.iter().map(|(packet, at)| (*packet, Time::from_nanos(at - shift))).collect()
    }

    /// For each super-frame that starts within the run: its start, and the rate of the units of active terminals.
    fn rates(tdma: &TdmaSpec, arrivals: &[Arrival]) -> Vec<(Time, Rate)> {
        let (oracle, shift) = Oracle::after(tdma, arrivals);
        let delay = tdma.allocation_delay().as_nanos();
        let within = (0u64..).zip(&oracle.plans).filter_map(|(number, units)| {
            let begin = number * tdma.superframe.as_nanos();
            let known = oracle.known_terminals(begin.saturating_sub(delay));
            let bytes = units[..known].iter().map(|units| units * oracle.payload(*units)).sum::<u64>();
            let bits = bytes * 8 * u64::from(tdma.multiframes);
            let rate = u128::from(bits) * 1_000_000_000 / u128::from(tdma.superframe.as_nanos());
            Some((Time::from_nanos(begin.checked_sub(shift)?), Rate::from_bps(rate as u64)))
        });
        within.collect()
    }

    /// Runs until all packets have left; returns also the offset between its clock and the run's.
    fn after(tdma: &'a TdmaSpec, arrivals: &[Arrival]) -> (Self, u64) {
        let p = tdma.superframe.as_nanos();
        let clock = if tdma.clock.is_some() { "clock/mesh/phase" } else { "link/up/tdma/phase" };
        let shift = Stream::new(SEED, clock).below(p);
        let shifted = arrivals.iter().map(|(at, flow, bytes)| (*at + Time::from_nanos(shift), *flow, *bytes)).collect();
        let queues = vec![VecDeque::new(); tdma.terminals as usize];
        let mut oracle =
            Oracle { tdma, arrivals: shifted, queues, plans: Vec::new(), left_at: Vec::new(), sent: Vec::new() };
        oracle.run();
        (oracle, shift)
    }

    /// Flows get terminals in the order of their first packets.
    fn terminal_of(&self, packet: usize) -> usize {
        if self.tdma.terminal_of == TerminalOf::Link {
            return 0;
        }
        let mut flows: Vec<u32> = Vec::new();
        for (_, flow, _) in &self.arrivals[..=packet] {
            if !flows.contains(flow) {
                flows.push(*flow);
            }
        }
        let flow = self.arrivals[packet].1;
        flows.iter().position(|known| *known == flow).unwrap() % self.tdma.terminals as usize
    }

    fn slot_begin(&self, superframe: u64, slot: u64) -> u64 {
        let p = self.tdma.superframe.as_nanos();
        let count = u64::from(self.tdma.multiframes) * u64::from(self.tdma.slots / self.tdma.carriers);
        superframe * p + p * slot / count
    }

    /// Processes all instants in order: requests before bursts, both before arrivals.
    fn run(&mut self) {
        let in_line = u64::from(self.tdma.slots / self.tdma.carriers);
        let count = u64::from(self.tdma.multiframes) * in_line;
        let delay = (self.tdma.processing + self.tdma.assignment + self.tdma.propagation).as_nanos();
        let p = self.tdma.superframe.as_nanos();
        let (mut arrived, mut means) = (vec![0u64; self.queues.len()], vec![0u128; self.queues.len()]);
        let mut waited = vec![0u64; self.queues.len()];
        self.sent = vec![0; self.queues.len()];
        let (mut next, mut superframe, mut slot) = (0, 0u64, 0u64);
        while self.left_at.len() < self.arrivals.len() {
            let request = (self.plans.len() as u64 * p).saturating_sub(delay);
            let burst = self.slot_begin(superframe, slot);
            let arrival = self.arrivals.get(next).map_or(u64::MAX, |(at, ..)| at.as_nanos());
            if request <= burst && request <= arrival {
                // Means in 2^-16 bytes.
                let rising = self.tdma.memory.as_nanos();
                let falling = self.tdma.memory_falling.map_or(rising, Time::as_nanos);
                if self.tdma.follows == Follows::Growth {
                    // Departures, and the growth of what waits.
                    for (terminal, queue) in self.queues.iter().enumerate() {
                        let waits = queue.iter().map(|(_, left)| left).sum::<u64>();
                        arrived[terminal] = self.sent[terminal] + waits.saturating_sub(waited[terminal]);
                        (waited[terminal], self.sent[terminal]) = (waits, 0);
                    }
                }
                for (mean, arrived) in means.iter_mut().zip(&mut arrived) {
                    let rises = u128::from(*arrived) << 16 >= *mean;
                    let memory = if rises { rising } else { falling }.max(p);
                    let sum = u128::from(p) * (u128::from(*arrived) << 16) + u128::from(memory - p) * *mean;
                    (*mean, *arrived) = (sum / u128::from(memory), 0);
                }
                let plan = self.plan(&means, request);
                self.plans.push(plan);
            } else if burst <= arrival {
                for terminal in 0..self.queues.len() {
                    if self.has_slot(superframe, terminal, slot % in_line) {
                        self.burst(
                            superframe,
                            terminal,
                            self.slot_begin(superframe, slot + 1) - self.tdma.guard.as_nanos(),
                        );
                    }
                }
                slot += 1;
                if slot == count {
                    (superframe, slot) = (superframe + 1, 0);
                }
            } else {
                let terminal = self.terminal_of(next);
                let bytes = u64::from(self.arrivals[next].2);
                self.queues[terminal].push_back((next, bytes));
                arrived[terminal] += bytes;
                next += 1;
            }
        }
    }

    /// Bytes that a slot of a terminal with this many units carries.
    fn payload(&self, units: u64) -> u64 {
        let slow = self.tdma.slow_payload.filter(|_| units <= u64::from(self.tdma.fixed));
        slow.unwrap_or(self.tdma.payload).as_u64()
    }

    fn burst(&mut self, superframe: u64, terminal: usize, end: u64) {
        let mut room = self.payload(self.plans[superframe as usize][terminal]);
        while room > 0 {
            let Some((packet, left)) = self.queues[terminal].front_mut() else { return };
            let sent = room.min(*left);
            (room, *left) = (room - sent, *left - sent);
            self.sent[terminal] += sent;
            if *left == 0 {
                self.left_at.push((*packet, end));
                self.queues[terminal].pop_front();
            }
        }
    }

    /// Whether the terminal has a slot at this place of a multi-frame: its units follow those of the terminals before it.
    fn has_slot(&self, superframe: u64, terminal: usize, place: u64) -> bool {
        let in_line = u64::from(self.tdma.slots / self.tdma.carriers);
        let gcd = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let near = ((in_line as f64 * 0.618_034).round() as u64).max(1);
        let step = (near..=2 * near + in_line).find(|step| gcd(*step, in_line) == 1).unwrap();
        let units = &self.plans[superframe as usize];
        let before: u64 = units[..terminal].iter().sum();
        let clock = if self.tdma.clock.is_some() { "clock/mesh/moves" } else { "link/up/tdma/moves" };
        let later = Positions::new(SEED, clock).below(superframe, u64::from(self.tdma.moves) + 1);
        let first = u64::from(self.tdma.place) + later;
        (before..before + units[terminal]).any(|unit| (first + unit * step) % in_line == place)
    }

    /// Grants units one by one, by category, each to the terminal with the fewest among those that want more.
    fn plan(&self, means: &[u128], now: u64) -> Vec<u64> {
        let tdma = self.tdma;
        let (n, number) = (self.queues.len(), self.plans.len());
        let unit = tdma.payload.as_u64() * u64::from(tdma.multiframes);
        let most = u64::from(tdma.most_units());
        let fixed = u64::from(tdma.fixed);
        let known = self.known_terminals(now);
        let without_request = fixed * self.payload(fixed) * u64::from(tdma.multiframes);
        let units_for = |bytes: u64| match bytes.div_ceil(unit).saturating_sub(fixed) {
            0 => u64::from(bytes > without_request),
            more => more,
        };
        let (mut rate, mut volume) = (vec![0; n], vec![0; n]);
        for i in 0..n {
            if i >= known {
                rate[i] = units_for(tdma.background.bytes_in(tdma.superframe).as_u64());
                continue;
            }
            let waiting: u64 = self.queues[i].iter().map(|(_, left)| left).sum();
            let uncovered = waiting.saturating_sub(self.bytes_ahead(i, now));
            if tdma.requests != Requests::Volume {
                let drained = tdma.drain.map_or(0, |drain| {
                    let part = u128::from(waiting) * u128::from(tdma.superframe.as_nanos());
                    waiting.min(part.div_ceil(u128::from(drain.as_nanos())) as u64)
                });
                let covered = means[i].div_ceil(1 << 16) as u64 + drained;
                rate[i] = units_for(covered + (tdma.margin.as_f64() * covered as f64).ceil() as u64);
            }
            if tdma.requests != Requests::Rate {
                volume[i] = units_for(uncovered.saturating_sub(rate[i] * unit));
            }
        }
        let mut granted = vec![fixed; n];
        let mut left = u64::from(tdma.slots) - fixed * n as u64;
        let free = if tdma.free { u64::MAX / 2 } else { 0 };
        for goal in [
            rate.iter().map(|r| fixed + r).collect::<Vec<_>>(),
            rate.iter().zip(&volume).map(|(r, v)| fixed + r + v).collect(),
            vec![free; n],
        ] {
            let mut given = vec![0; n];
            let turn = |i: usize| (i + n - number % n) % n;
            while left > 0 {
                let wanting = (0..n).filter(|i| granted[*i] < goal[*i].min(most));
                let Some(i) = wanting.min_by_key(|i| (given[*i], turn(*i))) else { break };
                (granted[i], given[i], left) = (granted[i] + 1, given[i] + 1, left - 1);
            }
        }
        granted
    }

    fn known_terminals(&self, now: u64) -> usize {
        let come = self.arrivals.iter().take_while(|(at, ..)| at.as_nanos() < now).count();
        let of_flows = (0..come).map(|packet| self.terminal_of(packet) + 1).max().unwrap_or(0);
        of_flows.max(usize::from(self.tdma.terminal_of == TerminalOf::Link))
    }

    fn bytes_ahead(&self, terminal: usize, now: u64) -> u64 {
        let in_line = u64::from(self.tdma.slots / self.tdma.carriers);
        let count = u64::from(self.tdma.multiframes) * in_line;
        let current = now / self.tdma.superframe.as_nanos();
        let all =
            (current..self.plans.len() as u64).flat_map(|superframe| (0..count).map(move |slot| (superframe, slot)));
        let ahead = all.filter(|(superframe, slot)| {
            self.slot_begin(*superframe, *slot) >= now && self.has_slot(*superframe, terminal, slot % in_line)
        });
        ahead.map(|(superframe, _)| self.payload(self.plans[superframe as usize][terminal])).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn each_packet_leaves_as_in_a_simple_implementation(tdma in channels(), arrivals in arrivals()) {
        let mut found: Vec<_> = departures(&tdma, &arrivals).into_iter().map(|(packet, _, _, at)| (packet, at)).collect();
        found.sort_unstable();
        prop_assert_eq!(found, Oracle::departures(&tdma, &arrivals));
    }

    #[test]
    fn the_rate_of_each_super_frame_is_that_of_its_units_with_or_without_requests(
        tdma in channels(), arrivals in arrivals(), spread in 1u64..15,
    ) {
        let arrivals: Vec<_> = arrivals.iter().map(|(at, flow, bytes)| (*at * spread, *flow, *bytes)).collect();
        let (mut link, mut packets) = (link(&tdma), arrivals.iter().enumerate().peekable());
        for (begin, rate) in Oracle::rates(&tdma, &arrivals) {
            let end = begin + tdma.superframe;
            while let Some((number, arrival)) = packets.next_if(|(_, arrival)| arrival.0 <= end) {
                offer(&mut link, number, *arrival);
            }
            link.queue_bytes(end);
            prop_assert_eq!(link.mean_rate(begin, end), rate, "the super-frame that starts at {:?}", begin);
        }
    }

    #[test]
    fn a_driver_that_polls_late_gets_the_same_instants(tdma in busy_channels(), arrivals in arrivals()) {
        let mut timely = link(&tdma);
        let mut found = Vec::new();
        for (i, arrival) in arrivals.iter().enumerate() {
            while let Some(at) = timely.next_event().filter(|at| *at <= arrival.0) {
                found.extend(delivered(&mut timely, at));
            }
            offer(&mut timely, i, *arrival);
        }
        while let Some(at) = timely.next_event() {
            found.extend(delivered(&mut timely, at));
        }
        prop_assert_eq!(found, departures(&tdma, &arrivals));
    }

    #[test]
    fn a_super_frame_carries_no_more_than_the_channel(tdma in busy_channels(), arrivals in arrivals()) {
        let found = departures(&tdma, &arrivals);
        prop_assert_eq!(found.len(), arrivals.len(), "every packet leaves");
        let most = tdma.payload.as_u64() * u64::from(tdma.multiframes) * u64::from(tdma.slots);
        for (_, _, _, begin) in &found {
            let end = *begin + tdma.superframe;
            let within = found.iter().filter(|(_, _, _, at)| at >= begin && *at < end);
            let bytes: u64 = within.map(|(_, _, bytes, _)| u64::from(*bytes)).sum();
            // Part of a packet may have been sent in the previous super-frame.
            prop_assert!(bytes <= most + 1500 * u64::from(tdma.terminals), "{bytes} of {most}");
        }
    }
}

/// Eight terminals with one flow and one guaranteed unit each, out of 40 units of 16 kbit/s.
pub(crate) fn shared() -> TdmaSpec {
    TdmaSpec {
        superframe: ms(500),
        multiframes: 2,
        slots: 40,
        payload: Bytes::new(500),
        terminals: 8,
        terminal_of: TerminalOf::Flow,
        fixed: 1,
        processing: ms(100),
        assignment: ms(400),
        propagation: ms(250),
        ..TdmaSpec::default()
    }
}

#[test]
fn the_guaranteed_units_do_not_depend_on_the_requests_of_others() {
    let tdma = shared();
    let mut arrivals: Vec<_> = (1..8).flat_map(|flow| steady(flow, 1000, Time::ZERO, ms(2), 5_000)).collect();
    arrivals.extend(steady(0, 100, ms(1), ms(90), 100));
    arrivals.sort_by_key(|(at, ..)| *at);
    for (number, flow, _, at) in departures(&tdma, &arrivals) {
        let wait = at - arrivals[number].0;
        // One slot in each multi-frame of 250 ms; its place changes from super-frame to super-frame.
        assert!(flow > 0 || wait <= ms(500), "packet {number} waits {wait:?}");
    }
}

#[test]
fn a_request_is_answered_after_the_allocation_delay() {
    let tdma = TdmaSpec { terminal_of: TerminalOf::Link, ..shared() };
    // The guaranteed unit carries the first two packets: a window that ends with them causes no request.
    for begin in (0..40).map(|i| ms(5_000 + 13 * i)) {
        let mut link = link(&tdma);
        // 200 kbit/s.
        for (i, arrival) in steady(0, 500, begin, ms(20), 400).into_iter().enumerate() {
            offer(&mut link, i, arrival);
        }
        let fixed = link.rate_at(begin);
        let rises = (0..8_000u64).map(|t| begin + ms(t)).find(|t| link.rate_at(*t) > fixed).unwrap();
        let (least, most) = (begin + ms(750), begin + ms(750) + ms(501) + ms(40));
        assert!(rises > least && rises <= most, "begun at {begin:?}, granted at {rises:?}");
    }
}

#[test]
fn traffic_of_a_constant_rate_gets_the_units_that_carry_it() {
    let tdma = TdmaSpec { terminal_of: TerminalOf::Link, ..shared() };
    // 25 packets of 500 bytes in each super-frame: 12.5 units.
    let arrivals = steady(0, 500, ms(3), ms(20), 1_000);
    let mut link = link(&tdma);
    for (i, arrival) in arrivals.iter().enumerate() {
        offer(&mut link, i, *arrival);
        if arrival.0 > ms(2_000) {
            assert_eq!(link.rate_at(arrival.0), Rate::from_bps(13 * 16_000));
        }
    }
}

#[test]
fn a_mean_of_arrivals_follows_steps_with_its_time_constants_and_a_margin_adds_its_share() {
    let tdma = TdmaSpec {
        terminal_of: TerminalOf::Link,
        superframe: ms(100),
        memory: ms(2_000),
        memory_falling: Some(ms(6_000)),
        margin: Ratio::new(0.25).unwrap(),
        ..shared()
    };
    let mut link = link(&tdma);
    // 800 kbit/s from second 10 to second 40. Units are 80 kbit/s, so 1 Mbit/s is wanted after the margin.
    for (i, arrival) in steady(0, 1_000, ms(10_000), ms(10), 3_000).into_iter().enumerate() {
        offer(&mut link, i, arrival);
    }
    let answered = |after: u64| link.rate_at(ms(10_000 + after) + tdma.allocation_delay()).as_bps() as f64 / 1e6;
    let expected = |after: f64| 1.0 - (-after / 2_000.0).exp();
    for after in [500, 2_000, 4_000, 12_000] {
        let (found, law) = (answered(after), expected(after as f64));
        // A super-frame of a twentieth of the time constant, and a unit.
        assert!((found - law).abs() < 0.13, "{after} ms: {found} of {law} Mbit/s");
    }
    assert!(answered(12_000) > 0.99);
    link.queue_bytes(ms(60_000));
    let answered = |after: u64| link.rate_at(ms(10_000 + after) + tdma.allocation_delay()).as_bps() as f64 / 1e6;
    for after in [2_000, 6_000, 12_000] {
        let (found, law) = (answered(30_000 + after), (-(after as f64) / 6_000.0).exp());
        assert!((found - law).abs() < 0.13, "{after} ms after the last: {found} of {law} Mbit/s");
    }
}

/// The round trip of each echo: over a channel to a terminal that answers at once over another.
pub(crate) fn echoes(there: &TdmaSpec, back: &TdmaSpec, sent: &[Time], seed: u64) -> Vec<Time> {
    let take = |name, tdma: &TdmaSpec, arrivals: &[Time]| -> Vec<Time> {
        let mut link: Link<usize> = Link::new(&spec(tdma), seed, name);
        for (number, at) in arrivals.iter().enumerate() {
            assert_eq!(offer(&mut link, number, (*at, 0, 100)), Offered::Queued);
        }
        delivered(&mut link, Time::from_secs(100_000)).into_iter().map(|(.., at)| at).collect()
    };
    let back = take("down", back, &take("up", there, sent));
    back.iter().zip(sent).map(|(back, sent)| *back - *sent).collect()
}

#[test]
fn between_two_terminals_of_one_clock_the_slot_of_the_reply_follows_from_that_of_the_request() {
    let mesh = |place, clock: Option<&str>| TdmaSpec {
        terminal_of: TerminalOf::Link,
        place,
        clock: clock.map(str::to_owned),
        ..shared()
    };
    // A slot takes 6.25 ms, a multi-frame 250 ms.
    let slot = Time::from_micros(6_250);
    let sent: Vec<_> = (0..400u64).map(|i| ms(2_000 + 1_003 * i)).collect();
    let spread = |trips: &[Time]| *trips.iter().max().unwrap() - *trips.iter().min().unwrap();
    let mut own_clocks = Vec::new();
    for seed in 0..20 {
        for place in [1, 7, 39] {
            let trips = echoes(&mesh(0, Some("mesh")), &mesh(place, Some("mesh")), &sent, seed);
            // The wait for the request's slot, then from its start to the end of the reply's.
            let after = slot * (u64::from(place) + 1);
            assert!(trips.iter().all(|trip| *trip >= after && *trip < after + ms(250)), "{:?}", trips.iter().max());
            assert!(spread(&trips) > ms(245), "each wait occurs: {:?}", spread(&trips));
        }
        own_clocks.extend(echoes(&mesh(0, None), &mesh(1, None), &sent, seed));
    }
    assert!(spread(&own_clocks) > ms(450), "two clocks have any phase to each other: {:?}", spread(&own_clocks));
}

#[test]
fn equal_terminals_get_equal_parts() {
    let tdma = TdmaSpec { slots: 39, ..shared() };
    let mut arrivals: Vec<_> = (0..8).flat_map(|flow| steady(flow, 500, ms(1), ms(20), 2_000)).collect();
    arrivals.sort_by_key(|(at, ..)| *at);
    let mut link = link(&tdma);
    for (i, arrival) in arrivals.iter().enumerate() {
        offer(&mut link, i, *arrival);
    }
    let mut bytes = [0u64; 8];
    for (_, flow, size, _) in delivered(&mut link, ms(40_000)) {
        bytes[flow as usize] += u64::from(size);
    }
    // Each wants 200 kbit/s and can have 78 kbit/s; a unit of a super-frame is 1000 bytes.
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    assert!(most - least <= 2_500, "{bytes:?}");
    assert!(*least > 380_000, "{bytes:?}");
}

#[test]
fn limits_hold_at_each_terminal() {
    let queue = QueueSpec { bytes: Some(Bytes::new(5_000)), packets: Some(9), ..QueueSpec::default() };
    let mut link: Link<usize> = Link::new(&LinkSpec { queue, ..spec(&shared()) }, SEED, "up");
    let accepted = |link: &mut Link<usize>, flow, bytes| {
        (0..20).filter(|i| offer(link, *i, (ms(1), flow, bytes)) == Offered::Queued).count()
    };
    assert_eq!(accepted(&mut link, 0, 1_000), 5);
    assert_eq!(accepted(&mut link, 1, 1_000), 5, "terminals have separate queues");
    assert_eq!(accepted(&mut link, 2, 100), 9);
    assert_eq!(link.counters().dropped, [41, 0, 0]);
}

#[test]
fn after_a_long_silence_only_the_time_differs() {
    let tdma = TdmaSpec { terminal_of: TerminalOf::Link, ..shared() };
    let traffic = |begin: u64| -> Vec<Time> {
        let arrivals = steady(0, 500, ms(begin), ms(20), 50);
        departures(&tdma, &arrivals).into_iter().map(|(_, _, _, at)| at - ms(begin)).collect()
    };
    // The silence is a whole number of super-frames, so the phase is the same.
    assert_eq!(traffic(5_000), traffic(5_000 + 500 * 100_000));
}
