//! One script of events drives a TCP sender and this adapter: windows and rates are equal call by call.
//!
//! TCP plays the script: its own endpoint sends, over a path that loses what the script says. What it sent, what each acknowledgement
//! delivered and what was deemed lost is then reported to the adapter, in the same order and at the same times. `docs/models/quic.md`
//! names the calls that differ; here TCP has the settings with which it does what RFC 9002 says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use perigee_cc::{CaState, Selected, Socket, INFINITE_SSTHRESH};
use perigee_settings::Config;
use perigee_tcp::{Endpoint, Info, Segment};
use perigee_units::{Bytes, Rate, Time};

use super::Sender;

/// The application's writes, and the path's losses.
struct Script {
    rate: Rate,
    /// Packets written at a time.
    writes: &'static [(Time, u64)],
    /// Transmissions that are lost, counted from the first packet.
    lost: &'static [u32],
    until: Time,
}

/// The decision of an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Decision {
    window: u32,
    threshold: u32,
    pacing_bps: Option<u64>,
}

/// An event of a sender. Packets are numbered in the order of their departure, the packet of the handshake included.
enum Step {
    Sent(u32),
    /// Packets delivered by an acknowledgement, packets that it showed to be lost, and TCP's decision.
    Acked {
        delivered: Vec<u32>,
        lost: Vec<u32>,
        decision: Decision,
    },
    Written,
    /// All that may leave has left, and the application has more to send or not.
    Turn {
        is_dry: bool,
    },
}

/// TCP playing a script.
struct Play<'a> {
    script: &'a Script,
    ends: [Endpoint; 2],
    arrivals: BinaryHeap<Reverse<(Time, u64, usize)>>,
    segments: Vec<Segment>,
    busy_until: Time,
    sent: u32,
    first_seq: u32,
    /// Number of the latest transmission of each packet.
    latest: BTreeMap<u32, u32>,
    outstanding: BTreeSet<u32>,
    delivered: BTreeSet<u32>,
    /// All packets below have been delivered.
    acked: u32,
    steps: Vec<(Time, Step)>,
}

const SENDER: usize = 0;
const RECEIVER: usize = 1;
const MSS: u32 = 1448;
const DELAY: Time = Time::from_millis(50);

fn settings() -> Config {
    let buffer = [Bytes::new(64_000_000); 3];
    Config {
        rmem: buffer,
        wmem: buffer,
        segment_memory: Bytes::new(1500),
        timestamps: false,
        mss: MSS as u16,
        tlp: false,
        prr: false,
        delayed_acks: false,
        ack_compression: false,
        slow_start_after_idle: false,
        segmentation_offload: false,
        ..Config::default()
    }
}

fn decision(info: &Info) -> Decision {
    Decision {
        window: info.cwnd,
        threshold: info.ssthresh.unwrap_or(INFINITE_SSTHRESH),
        pacing_bps: info.pacing_rate_bps,
    }
}

impl<'a> Play<'a> {
    fn new(script: &'a Script, cc: &Selected) -> Self {
        let settings = settings();
        Self {
            script,
            ends: [Endpoint::server(&settings, cc, 1), Endpoint::client(&settings, cc, 2)],
            arrivals: BinaryHeap::new(),
            segments: Vec::new(),
            busy_until: Time::ZERO,
            sent: 0,
            first_seq: 0,
            latest: BTreeMap::new(),
            outstanding: BTreeSet::new(),
            delivered: BTreeSet::new(),
            acked: 0,
            steps: Vec::new(),
        }
    }

    fn carry_out(mut self) -> Vec<(Time, Step)> {
        self.ends[RECEIVER].open(Time::ZERO);
        self.turn(RECEIVER, Time::ZERO);
        let mut writes = self.script.writes.iter().peekable();
        loop {
            let arrival = self.arrivals.peek().map_or(Time::MAX, |Reverse((at, ..))| *at);
            let timers = [SENDER, RECEIVER].map(|end| self.ends[end].deadline());
            let write = writes.peek().map_or(Time::MAX, |(at, _)| *at);
            let now = arrival.min(timers[SENDER]).min(timers[RECEIVER]).min(write);
            if now > self.script.until {
                return self.steps;
            }
            let end = if write == now {
                let (_, packets) = writes.next().expect("peeked");
                self.steps.push((now, Step::Written));
                self.ends[SENDER].write(packets * u64::from(MSS));
                SENDER
            } else if arrival == now {
                let Some(Reverse((_, number, end))) = self.arrivals.pop() else { return self.steps };
                let segment = self.segments[number as usize];
                self.arrive(end, now, &segment);
                end
            } else {
                let end = if timers[SENDER] == now { SENDER } else { RECEIVER };
                self.fire(end, now);
                end
            };
            self.turn(end, now);
        }
    }

    fn arrive(&mut self, end: usize, now: Time, segment: &Segment) {
        let before = self.ends[end].info();
        self.ends[end].on_segment(now, segment, false);
        if end == RECEIVER || self.sent == 0 {
            return;
        }
        let after = self.ends[SENDER].info();
        let delivered: Vec<_> = self.newly_delivered(segment);
        for number in &delivered {
            self.outstanding.remove(number);
        }
        let lost = self.newly_lost(&before, &after);
        self.steps.push((now, Step::Acked { delivered, lost, decision: decision(&after) }));
    }

    fn fire(&mut self, end: usize, now: Time) {
        let before = self.ends[end].info();
        self.ends[end].on_timer(now);
        let after = self.ends[end].info();
        if end == SENDER && after.lost > before.lost {
            let lost = self.newly_lost(&before, &after);
            self.steps.push((now, Step::Acked { delivered: Vec::new(), lost, decision: decision(&after) }));
        }
    }

    /// The oldest transmissions, as many as TCP deems lost since.
    fn newly_lost(&mut self, before: &Info, after: &Info) -> Vec<u32> {
        assert_eq!(after.rto_count, 0, "no script has a timeout");
        let lost: Vec<_> = self.outstanding.iter().copied().take((after.lost - before.lost) as usize).collect();
        for number in &lost {
            self.outstanding.remove(number);
        }
        lost
    }

    /// Numbers of the transmissions that an acknowledgement is the first to report.
    fn newly_delivered(&mut self, segment: &Segment) -> Vec<u32> {
        let packet = |seq: u32| seq.wrapping_sub(self.first_seq).div_ceil(MSS);
        let cumulative = self.acked..packet(segment.ack);
        self.acked = self.acked.max(cumulative.end);
        let sacks = &segment.sack[..usize::from(segment.sack_count)];
        let selective = sacks.iter().map(|(start, end)| packet(*start)..packet(*end));
        let ranges = std::iter::once(cumulative).chain(selective);
        let mut delivered = Vec::new();
        for packet in ranges.flatten() {
            if self.latest.contains_key(&packet) && self.delivered.insert(packet) {
                delivered.push(self.latest[&packet]);
            }
        }
        delivered
    }

    fn turn(&mut self, end: usize, now: Time) {
        let mut segment = Segment::default();
        while self.ends[end].transmit_into(now, &mut segment) {
            let mut is_lost = false;
            let mut arrival = now + DELAY;
            if end == SENDER {
                is_lost = self.script.lost.contains(&self.sent);
                self.note_sent(now, &segment);
                self.busy_until = self.busy_until.max(now) + self.script.rate.time_to_send(Bytes::new(1500));
                arrival = self.busy_until + DELAY;
            }
            if !is_lost {
                self.arrivals.push(Reverse((arrival, self.segments.len() as u64, 1 - end)));
                self.segments.push(segment);
            }
        }
        if end == SENDER && self.sent > 0 {
            let is_dry = self.ends[SENDER].info().snd_nxt >= self.ends[SENDER].written();
            self.steps.push((now, Step::Turn { is_dry }));
        }
    }

    fn note_sent(&mut self, now: Time, segment: &Segment) {
        if self.sent == 0 {
            // The SYN-ACK is packet 0, and data follow it.
            self.first_seq = segment.seq.wrapping_add(1).wrapping_sub(MSS);
        }
        let packet = if self.sent == 0 { 0 } else { segment.seq.wrapping_sub(self.first_seq) / MSS };
        self.latest.insert(packet, self.sent);
        self.outstanding.insert(self.sent);
        self.steps.push((now, Step::Sent(self.sent)));
        self.sent += 1;
    }
}

/// When the adapter decided otherwise than TCP, and how.
type Difference = (Time, String);

/// Reports the steps to the adapter; returns where it decides otherwise than TCP, and the number of its calls.
fn replay(steps: &[(Time, Step)], cc: &Selected) -> (Vec<Difference>, usize) {
    let mut sender = Sender::new(Socket::new(cc, MSS, 10, 1), false);
    let (mut sent_at, mut differences, mut calls) = (BTreeMap::new(), Vec::new(), 0);
    for (now, step) in steps {
        match step {
            Step::Sent(number) => {
                sent_at.insert(*number, *now);
                sender.on_sent(*now, u64::from(*number), MSS as u16);
            }
            Step::Acked { delivered, lost, decision } => {
                for number in delivered {
                    sender.on_acked(*now, sent_at[number], u64::from(*number));
                }
                if !delivered.is_empty() {
                    sender.on_end_of_ack(*now, None);
                }
                for number in lost {
                    sender.on_lost(*now, u64::from(*number));
                }
                if !lost.is_empty() {
                    sender.on_loss_event(*now);
                }
                sender.window();
                calls += 1;
                let quic = Decision {
                    window: sender.sk.snd_cwnd,
                    threshold: sender.sk.snd_ssthresh,
                    pacing_bps: sender.pacing_rate().map(|rate| rate.saturating_mul(8)),
                };
                // TCP's window lets the first retransmission of a recovery out (RFC 6675, section 5, step 4.3).
                let lets_one_out = !lost.is_empty() && quic.window < decision.window;
                if quic != *decision && !lets_one_out {
                    let how = format!("call {calls} at {now}, {:?}: {quic:?}, TCP {decision:?}", sender.state());
                    differences.push((*now, how));
                }
            }
            Step::Written => sender.on_write(),
            Step::Turn { is_dry } => {
                sender.end_turn(*now, *is_dry);
            }
        }
    }
    (differences, calls)
}

/// Slow start, a queue that fills, an application that pauses and resumes.
const WITHOUT_LOSSES: Script = Script {
    rate: Rate::from_bps(20_000_000),
    writes: &[
        (Time::from_millis(150), 400),
        (Time::from_millis(900), 30),
        (Time::from_millis(960), 700),
        (Time::from_secs(3), 20),
        (Time::from_secs(6), 2000),
    ],
    lost: &[],
    until: Time::from_secs(9),
};

/// As above, and one packet is lost in a window, three times.
const WITH_LOSSES: Script = Script { lost: &[300, 900, 2200], ..WITHOUT_LOSSES };

fn differences(script: &Script, name: &str) -> (Vec<Difference>, usize) {
    let cc = Selected::parse(name, &[]).expect("a known algorithm");
    replay(&Play::new(script, &cc).carry_out(), &cc)
}

#[test]
fn every_algorithm_decides_as_over_tcp_without_losses() {
    for algorithm in perigee_cc::algorithms().iter().filter(|algorithm| !algorithm.needs_ecn()) {
        let (differences, calls) = differences(&WITHOUT_LOSSES, algorithm.name());
        assert!(calls > 1000 && differences.is_empty(), "{}: {:?}", algorithm.name(), differences.first());
    }
}

/// Algorithms that decide otherwise once what replaces a lost packet has arrived, with the call from which that comes.
const DIFFERING: [(&str, &str); 5] = [
    ("bic", "pkts_acked: TCP counts all packets that leave its queue as the gap is filled"),
    ("copa", "cong_control: TCP takes no round trip of a retransmission"),
    ("fast", "pkts_acked: TCP takes no round trip of a retransmission"),
    ("htcp", "pkts_acked: TCP counts all packets that leave its queue as the gap is filled"),
    ("vivace", "cong_control: sequence numbers of a retransmission are new"),
];

#[test]
fn algorithms_decide_as_over_tcp_around_losses_but_for_the_named_calls() {
    for algorithm in perigee_cc::algorithms().iter().filter(|algorithm| !algorithm.needs_ecn()) {
        let cc = Selected::with_defaults(algorithm);
        let steps = Play::new(&WITH_LOSSES, &cc).carry_out();
        let (differences, _) = replay(&steps, &cc);
        let named = DIFFERING.iter().find(|(name, _)| *name == algorithm.name());
        let Some(first) = differences.first() else {
            assert!(named.is_none(), "{named:?} decides as over TCP");
            continue;
        };
        let loss = steps.iter().find(|(_, step)| matches!(step, Step::Acked { lost, .. } if !lost.is_empty()));
        let repaired = loss.expect("the script loses packets").0 + DELAY + DELAY;
        assert!(named.is_some() && first.0 > repaired, "{}: {first:?}", algorithm.name());
    }
}

/// TCP's recovery lasts until all holes are filled, and algorithms such as BBR see as much. A window that the host reduces grows again
/// with the first packet that left after the reduction (RFC 9002, section 7.3.2).
#[test]
fn an_algorithm_that_sets_its_window_sees_recovery_until_all_losses_are_repaired() {
    let states = |name: &str| {
        let cc = Selected::parse(name, &[]).expect("a known algorithm");
        let mut sender = Sender::new(Socket::new(&cc, MSS, 40, 1), false);
        let (ms, mut sent) = (Time::from_millis, Vec::new());
        // At this time, packets delivered and lost, and how many leave.
        let steps: [(u64, &[u32], &[u32], u32); 7] = [
            (0, &[], &[], 1),
            (100, &[0], &[], 12),
            (200, &[2, 3, 4], &[1], 1),
            (210, &[6, 7, 8], &[5], 1),
            (220, &[9, 10, 11, 12], &[], 0),
            (300, &[13], &[], 0),
            (310, &[14], &[], 0),
        ];
        let states = steps.map(|(at, delivered, lost, leaving)| {
            for number in delivered {
                sender.on_acked(ms(at), sent[*number as usize], u64::from(*number));
            }
            sender.on_end_of_ack(ms(at), None);
            for number in lost {
                sender.on_lost(ms(at), u64::from(*number));
                sender.on_loss_event(ms(at));
            }
            sender.window();
            for _ in 0..leaving {
                sender.on_sent(ms(at), sent.len() as u64, MSS as u16);
                sent.push(ms(at));
            }
            sender.state()
        });
        assert_eq!(states[2..5], [CaState::Recovery; 3], "{name}");
        [states[5], states[6]]
    };
    for name in ["bbr", "bbr3", "copa"] {
        assert_eq!(states(name), [CaState::Recovery, CaState::Open], "{name}");
    }
    assert_eq!(states("cubic"), [CaState::Open; 2]);
}
