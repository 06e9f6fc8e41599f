//! Laws of DCTCP: RFC 8257, sections 3.2, 3.3 and 3.5.

use perigee_cc::{ack, ecn, CaEvent, CaState, Selected, Socket};

use crate::near;
use crate::path::Path;
use crate::rates::alone;

const MSS: u32 = 1448;
const CWND: u32 = 1000;
/// Packets that make alpha visible, to half a millionth.
const FINE: u32 = 1 << 21;
/// Each of the two terms of alpha's average is rounded down to 2^-20, which comes to 1 / g of that.
const ROUNDED: f64 = 1e-4;

/// A connection whose window does not grow, with an observation window for each of its windows.
struct Connection(Socket);

impl Connection {
    fn new(settings: &[(&str, &str)]) -> Self {
        let mut socket = Socket::new(&Selected::parse("dctcp", settings).expect("dctcp"), MSS, CWND, 1);
        (socket.ecn_flags, socket.snd_cwnd, socket.snd_ssthresh) = (ecn::OK, CWND, 2);
        socket.init();
        Self(socket)
    }

    /// A window of packets is acknowledged, of which `marked` of each thousand, evenly, bore a mark.
    fn window(&mut self, marked: u32) {
        let sk = &mut self.0;
        sk.snd_nxt = sk.snd_una.wrapping_add(CWND * MSS);
        for packet in 0..CWND {
            sk.snd_una = sk.snd_una.wrapping_add(MSS);
            sk.snd_nxt = sk.snd_nxt.wrapping_add(MSS);
            sk.delivered += 1;
            sk.delivered_ce += (packet + 1) * marked / 1000 - packet * marked / 1000;
            sk.in_ack_event(0);
        }
    }

    fn windows(mut self, count: u32, marked: u32) -> Self {
        (0..count).for_each(|_| self.window(marked));
        self
    }

    /// The share of a window that the reduction for a mark takes.
    fn reduction(&mut self) -> f64 {
        self.0.snd_cwnd = FINE;
        1.0 - f64::from(self.0.ssthresh()) / f64::from(FINE)
    }

    fn alpha(&mut self) -> f64 {
        2.0 * self.reduction()
    }

    /// A loss, in this state; the threshold after it.
    fn lose(&mut self, state: CaState, cwnd: u32) -> u32 {
        let sk = &mut self.0;
        sk.inet_conn.icsk_ca_state = state as u8;
        sk.snd_cwnd = cwnd;
        if matches!(state, CaState::Open) {
            sk.snd_ssthresh = sk.ssthresh();
        }
        sk.set_state(CaState::Recovery);
        sk.snd_ssthresh
    }
}

#[test]
fn alpha_comes_to_rest_at_the_share_of_marks() {
    for marked in [0, 20, 100, 250, 500, 750, 1000] {
        let share = f64::from(marked) / 1000.0;
        for initial in ["0 %", "100 %"] {
            let alpha = Connection::new(&[("initial_alpha", initial)]).windows(300, marked).alpha();
            assert!((alpha - share).abs() <= ROUNDED, "{alpha} at a share of {share}, from {initial}");
        }
    }
}

#[test]
fn alpha_moves_by_the_gain_a_window() {
    let after = |settings: &[(&str, &str)], windows, marked| Connection::new(settings).windows(windows, marked).alpha();
    for windows in [1_i32, 4, 16, 40] {
        let left = (1.0 - 1.0 / 16.0_f64).powi(windows);
        let falling = after(&[], windows as u32, 0);
        assert!((falling - left).abs() <= ROUNDED, "{falling} after {windows} windows, expected {left}");
        let rising = after(&[("initial_alpha", "0 %")], windows as u32, 1000);
        assert!((rising - (1.0 - left)).abs() <= ROUNDED, "{rising} after {windows} windows, expected {}", 1.0 - left);
    }
    near(after(&[("gain", "50 %")], 1, 0), 0.5, 0.2);
    assert!(after(&[], 300, 0) < ROUNDED, "a quiet path is forgotten");
}

#[test]
fn a_window_of_marks_halves_and_a_share_of_marks_takes_half_its_share() {
    near(Connection::new(&[]).windows(1, 1000).reduction(), 0.5, 0.01);
    for marked in [100, 300, 600] {
        let share = f64::from(marked) / 1000.0;
        let reduction = Connection::new(&[]).windows(300, marked).reduction();
        assert!((reduction - share / 2.0).abs() <= ROUNDED / 2.0, "{reduction} at a share of {share}");
    }
    let mut quiet = Connection::new(&[("initial_alpha", "0 %")]);
    assert!(quiet.reduction().abs() < 1e-9);
    let mut small = Connection::new(&[]);
    small.0.snd_cwnd = 2;
    assert_eq!(small.0.ssthresh(), 2, "two packets stay");
}

#[test]
fn a_loss_halves_whatever_the_share_of_marks() {
    for initial in ["0 %", "30 %", "100 %"] {
        let connection = || Connection::new(&[("initial_alpha", initial)]);
        assert_eq!(connection().lose(CaState::Open, 400), 200, "alpha {initial}");
        // The reduction for a mark has come to 300 packets when the loss is found.
        assert_eq!(connection().lose(CaState::Cwr, 300), 150, "alpha {initial}");
        let mut timed_out = connection();
        timed_out.0.snd_cwnd = 400;
        timed_out.0.snd_ssthresh = timed_out.0.ssthresh();
        timed_out.0.cwnd_event(CaEvent::Loss);
        assert_eq!(timed_out.0.snd_ssthresh, 200, "alpha {initial}");
        timed_out.0.snd_cwnd = 1;
        assert_eq!(timed_out.0.undo_cwnd(), 400, "a spurious timeout");
    }
}

#[test]
fn without_ecn_it_is_reno() {
    let mut socket = Socket::new(&Selected::parse("dctcp", &[("initial_alpha", "0 %")]).expect("dctcp"), MSS, CWND, 1);
    socket.init();
    socket.snd_cwnd = 400;
    assert_eq!(socket.ssthresh(), 200);
}

#[test]
fn an_ack_that_waits_leaves_before_the_state_of_the_marks_changes() {
    let mut sk = Connection::new(&[]).0;
    let echoes = |sk: &Socket| sk.ecn_flags & ecn::DEMAND_CWR != 0;
    // Bytes received, whether marked, whether an ACK waits; then: due at once, the early ACK, and the state of the next ones.
    let steps = [
        (1000, false, false, (false, None, false)),
        (2000, true, true, (true, Some((1000, false)), true)),
        (3000, true, false, (false, None, true)),
        (4000, true, true, (false, None, true)),
        (5000, false, true, (true, Some((4000, true)), false)),
        (6000, true, false, (true, None, true)),
        (7000, false, false, (true, None, false)),
    ];
    for (next, marked, waits, (due, early, echo)) in steps {
        assert_eq!(sk.report_mark(marked, next, waits), (due, early), "after {next} bytes");
        assert_eq!(echoes(&sk), echo, "after {next} bytes");
        assert_eq!(sk.ecn_flags & ecn::OK, ecn::OK);
    }
    assert_eq!(sk.inet_conn.icsk_ack.pending, ack::NOW);
}

#[test]
fn a_step_holds_the_queue_and_costs_less_than_renos_halving() {
    // 20 Mbit/s and 40 ms; a step of a tenth of the round trip is less than Reno needs to keep the link busy.
    let path = Path { marks_from_us: Some(4_000), ..Path::new(20.0, 40, 1_000_000) };
    let [reno, dctcp] = ["reno", "dctcp"].map(|name| alone(name, &[], &path, 60.0));
    let (ours, renos) = (dctcp.mbps(20.0, 60.0), reno.mbps(20.0, 60.0));
    assert!(ours > 1.1 * renos, "{ours} against {renos} Mbit/s");
    assert_eq!((dctcp.lost_packets, reno.lost_packets), (0, 0));
    let wait = dctcp.rtt_ms(20.0, 60.0) - 40.0;
    assert!((1.0..6.0).contains(&wait), "a mean wait of {wait} ms with a step at 4 ms");
}
