//! Tries an algorithm with random events of a host: its windows stay sane.
//!
//! `perigee cc check` runs [`trial`] on an author's file, in a process that may crash or hang: each event is noted where the
//! caller can read it (see [`perigee_cc::ProgressNote`]). [`attempt`] lets the caller search for the events
//! that a failure needs. The tests of `perigee-cc` do the same to the built-in algorithms.

use std::ops::Range;

use perigee_cc::{ecn, pacing, AckSample, Algorithm, CaEvent, CaState, OptionsReceived, RateSample, Selected, Socket};
use perigee_units::Stream;

/// One thing that happens to a connection.
#[derive(Clone, Debug)]
pub enum Op {
    /// Packets are acknowledged.
    Ack {
        /// How many.
        packets: u32,
        /// Their round trip.
        rtt_us: u32,
        /// Since the last event.
        after_us: u32,
        /// Packets found lost by it.
        losses: u32,
        /// The window was used up.
        limited: bool,
        /// The application had nothing to send.
        app_limited: bool,
    },
    /// The window's packets are sent.
    Send,
    /// A loss is detected.
    Loss,
    /// The retransmission timer fires.
    Timeout,
    /// The losses are repaired.
    Recovered,
    /// The reduction is taken back.
    Undo,
    /// Something happens to the window.
    Event(CaEvent),
    /// A pause of this length, after which data are sent.
    Idle {
        /// How long.
        us: u64,
    },
}

/// Bounds of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Two packets and more, except after a timeout; a rate above zero.
    Strict,
    /// One packet and more; any rate. For algorithms that own both.
    Lenient,
}

/// A host that keeps a connection's counts consistent through any events.
pub struct Host {
    /// The connection.
    pub socket: Socket,
}

impl Host {
    /// A connection that has just been established, after a handshake of this round trip, at this time.
    pub fn new(selected: &Selected, rtt_us: u32, epoch_us: u64) -> Self {
        let mut socket = Socket::new(selected, MSS, 10, 3);
        (socket.tcp_mstamp, socket.delivered_mstamp, socket.first_tx_mstamp) = (epoch_us, epoch_us, epoch_us);
        socket.tcp_clock_cache = epoch_us.wrapping_mul(1000);
        socket.srtt_us = rtt_us << 3;
        socket.rtt_min_us = rtt_us;
        socket.delivered = 1;
        // Larger congestion windows fill it.
        socket.snd_wnd = 1 << 20;
        if selected.algorithm().needs_ecn() {
            socket.ecn_flags = ecn::OK;
        }
        socket.init();
        Self { socket }
    }

    /// Time passes.
    pub fn advance(&mut self, us: u64) {
        let sk = &mut self.socket;
        sk.tcp_mstamp += us;
        sk.tcp_clock_cache = sk.tcp_mstamp.wrapping_mul(1000);
    }

    /// Something happens.
    pub fn apply(&mut self, op: &Op) {
        let sk = &mut self.socket;
        match *op {
            Op::Ack { packets, rtt_us, after_us, losses, limited, app_limited } => {
                self.advance(u64::from(after_us));
                self.ack(packets, rtt_us, losses, limited, app_limited);
            }
            Op::Send => {
                let room = sk.snd_cwnd.saturating_sub(sk.packets_in_flight()).min(100_000_000);
                sk.packets_out += room;
                sk.max_packets_out = sk.packets_out;
                sk.snd_nxt = sk.snd_nxt.wrapping_add(room.wrapping_mul(MSS));
                sk.bytes_sent += u64::from(room) * u64::from(MSS);
                sk.lsndtime = (sk.tcp_mstamp / 1000) as u32;
            }
            Op::Loss if sk.inet_conn.icsk_ca_state < CaState::Recovery as u8 => {
                sk.prior_cwnd = sk.snd_cwnd;
                sk.snd_ssthresh = sk.ssthresh();
                sk.set_state(CaState::Recovery);
                if !sk.has_cong_control() {
                    sk.snd_cwnd = sk.snd_ssthresh.min(sk.snd_cwnd);
                }
            }
            Op::Timeout => {
                sk.prior_cwnd = sk.snd_cwnd;
                sk.snd_ssthresh = sk.ssthresh();
                sk.set_state(CaState::Loss);
                sk.snd_cwnd = 1;
            }
            Op::Recovered => sk.set_state(CaState::Open),
            Op::Undo => sk.snd_cwnd = sk.undo_cwnd(),
            Op::Event(event @ (CaEvent::EcnIsCe | CaEvent::EcnNoCe)) => {
                let next = sk.rcv_nxt.wrapping_add(MSS);
                // Every other segment waits for an ACK.
                sk.report_mark(event == CaEvent::EcnIsCe, next, next.wrapping_div(MSS).is_multiple_of(2));
            }
            Op::Event(event) => sk.cwnd_event(event),
            Op::Idle { us } => {
                self.advance(us);
                self.socket.cwnd_event(CaEvent::TxStart);
            }
            Op::Loss => {}
        }
    }

    /// Packets are acknowledged, now.
    pub fn ack(&mut self, packets: u32, rtt_us: u32, losses: u32, limited: bool, app_limited: bool) {
        let sk = &mut self.socket;
        let packets = packets.min(sk.packets_out).max(1);
        let prior_in_flight = sk.packets_in_flight();
        sk.packets_out = sk.packets_out.saturating_sub(packets);
        (sk.snd_una, sk.delivered) =
            (sk.snd_una.wrapping_add(packets.wrapping_mul(MSS)), sk.delivered.wrapping_add(packets));
        sk.lost = sk.lost.wrapping_add(losses);
        if sk.needs_ecn() {
            // Those packets arrived after all, marked.
            sk.delivered_ce = sk.delivered_ce.wrapping_add(losses.min(packets));
            sk.in_ack_event(0);
        }
        sk.srtt_us = sk.srtt_us - (sk.srtt_us >> 3) + rtt_us;
        sk.rtt_min_us = sk.rtt_min_us.min(rtt_us);
        sk.is_cwnd_limited = u8::from(limited);
        sk.app_limited = if app_limited { sk.delivered.max(1) } else { 0 };
        sk.delivered_mstamp = sk.tcp_mstamp;
        let (una, delivered) = (sk.snd_una, sk.delivered);
        // The peer has the same clock, half way back.
        let stamp = |ago_us: u32| (sk.tcp_mstamp.saturating_sub(u64::from(ago_us)) / 1000) as u32;
        sk.rx_opt = OptionsReceived { rcv_tsval: stamp(rtt_us / 2), rcv_tsecr: stamp(rtt_us) };
        sk.pkts_acked(&AckSample { pkts_acked: packets, rtt_us: rtt_us as i32, in_flight: prior_in_flight });
        let sample = RateSample {
            prior_mstamp: sk.tcp_mstamp.saturating_sub(u64::from(rtt_us)),
            prior_delivered: delivered.wrapping_sub(packets),
            delivered: packets as i32,
            interval_us: i64::from(rtt_us),
            rtt_us: i64::from(rtt_us),
            losses: losses as i32,
            acked_sacked: packets,
            prior_in_flight,
            last_end_seq: una,
            is_app_limited: app_limited,
            ..RateSample::default()
        };
        if sk.has_cong_control() {
            sk.cong_control(una, 0, &sample);
        } else if sk.inet_conn.icsk_ca_state < CaState::Recovery as u8 {
            sk.cong_avoid(una, packets);
        }
    }

    /// Whether window, threshold and rate are sane after `op`, before which the window was `before`.
    ///
    /// # Errors
    /// If one is not; says which.
    pub fn check(&self, rules: Rules, before: u32, op: &Op) -> Result<(), String> {
        let sk = &self.socket;
        let (cwnd, lenient) = (sk.snd_cwnd, rules == Rules::Lenient);
        // After a timeout the host itself goes down to one packet.
        let may_be_one = before == 1 || matches!(op, Op::Timeout) || lenient;
        let paced = sk.inet_conn.sk.sk_pacing_status == pacing::NEEDED;
        let wrong = match cwnd {
            0 => "a window of zero, which no timer ends".to_owned(),
            1 if !may_be_one => format!("a window of one packet, from {before}"),
            0x8000_0000.. => format!("a window of {cwnd} packets"),
            _ if sk.snd_ssthresh < 2 => format!("a threshold of {} packets", sk.snd_ssthresh),
            _ if paced && sk.inet_conn.sk.sk_pacing_rate == 0 && !lenient => "a pacing rate of zero".to_owned(),
            _ => return Ok(()),
        };
        Err(wrong)
    }
}

/// The first event after which a bound was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The number of the sequence.
    pub sequence: u32,
    /// The place of the event in it.
    pub event: usize,
    /// The error, with the value.
    pub wrong: String,
}

/// The beginning of a connection and the events that follow, drawn from a number.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Round trip of the handshake.
    pub rtt_us: u32,
    epoch_us: u64,
    /// The events.
    pub ops: Vec<Op>,
}

impl Sequence {
    /// The sequence of this number.
    pub fn of(number: u32) -> Self {
        let mut draws = Stream::new(u64::from(number), "trial");
        Self {
            rtt_us: [0, 40_000, 600_000, 60_000_000][draws.below(4) as usize],
            epoch_us: [0, (1 << 32) - 1_000_000, ((1 << 32) - 1_000) * 1000][draws.below(3) as usize],
            ops: (0..=draws.below(MOST_EVENTS)).map(|_| draw(&mut draws)).collect(),
        }
    }
}

/// Tries the random sequences of events of these numbers, each with a first round trip and a time of its own; the same ones
/// each time.
///
/// # Errors
/// If one breaks a window.
pub fn trial(algorithm: &'static Algorithm, mut sequences: Range<u32>) -> Result<(), Broken> {
    sequences.try_for_each(|number| first_wrong(algorithm, number, &Sequence::of(number)))
}

/// Tries some events of a sequence: those of these places, in this order.
///
/// # Errors
/// If they break a window; the event's place is that in `places`.
pub fn attempt(algorithm: &'static Algorithm, number: u32, places: &[usize]) -> Result<(), Broken> {
    let whole = Sequence::of(number);
    let ops = places.iter().filter_map(|place| whole.ops.get(*place).cloned()).collect();
    first_wrong(algorithm, number, &Sequence { ops, ..whole })
}

fn first_wrong(algorithm: &'static Algorithm, number: u32, sequence: &Sequence) -> Result<(), Broken> {
    let rules = if algorithm.has_cong_control() { Rules::Lenient } else { Rules::Strict };
    let note = |event: Option<usize>| {
        if let Some(note) = algorithm.note() {
            note.event(number, event.map(|event| event as u32));
        }
    };
    note(None);
    let mut host = Host::new(&Selected::with_defaults(algorithm), sequence.rtt_us, sequence.epoch_us);
    for (event, op) in sequence.ops.iter().enumerate() {
        note(Some(event));
        let before = host.socket.snd_cwnd;
        host.apply(op);
        host.check(rules, before, op).map_err(|wrong| Broken { sequence: number, event, wrong })?;
    }
    Ok(())
}

/// A random event, as the tests of this crate weigh them.
fn draw(draws: &mut Stream) -> Op {
    let between = |draws: &mut Stream, low: u64, high: u64| (low + draws.below(high - low)) as u32;
    match draws.below(38) {
        0..20 => {
            let packets = [(1, 4), (4, 1000), (1000, 10_000_000)][[0, 0, 0, 0, 0, 0, 1, 2][draws.below(8) as usize]];
            let rtt = [(0, 10), (1_000, 1_000_000), (1_000_000, 60_000_000)][draws.below(3) as usize];
            let after = [(0, 5), (5, 5_000), (5_000, 2_000_000)][draws.below(3) as usize];
            Op::Ack {
                packets: between(draws, packets.0, packets.1),
                rtt_us: between(draws, rtt.0, rtt.1),
                after_us: between(draws, after.0, after.1),
                losses: if draws.chance(0.1) { between(draws, 1, 100) } else { 0 },
                limited: draws.chance(0.5),
                app_limited: draws.chance(0.5),
            }
        }
        20..28 => Op::Send,
        28..30 => Op::Loss,
        30 => Op::Timeout,
        31..34 => Op::Recovered,
        34 => Op::Undo,
        35 | 36 => Op::Event(
            [CaEvent::TxStart, CaEvent::CwndRestart, CaEvent::CompleteCwr, CaEvent::Loss, CaEvent::EcnIsCe]
                [draws.below(5) as usize],
        ),
        _ => Op::Idle { us: draws.below(5_000_000_000) },
    }
}

/// Payload of a segment.
pub const MSS: u32 = 1448;
/// Most events of a sequence.
const MOST_EVENTS: u64 = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_algorithm_that_is_built_in_fails_the_trial() {
        for algorithm in perigee_cc::algorithms() {
            assert_eq!(trial(algorithm, 0..100), Ok(()), "{}", algorithm.name());
        }
    }
}
