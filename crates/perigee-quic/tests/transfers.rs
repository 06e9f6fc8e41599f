//! Downloads: equal in every run, without losing memory, with own and other keys.

use perigee_quic::{Config, Control, Event, Limit, StackControl};
use perigee_units::{Bytes, Rate, Time};

use crate::common::{download, unbounded, with, Download, Path, CLIENT, SERVER};

fn path(queue: u64) -> Path {
    Path {
        rate: Rate::from_mbps(20.0),
        delay: Time::from_millis(20),
        queue: Bytes::new(queue),
        silence: Time::MAX..Time::MAX,
        loses: |_| false,
    }
}

fn run(cc: &str, queue: u64, bytes: u64) -> Download {
    let config = unbounded(cc);
    download(&path(queue), [&config, &config], bytes, Time::from_secs(60))
}

#[test]
fn a_download_is_equal_in_every_run_to_the_byte() {
    let [one, other] = [(); 2].map(|()| run("bbr", 100_000, 3_000_000));
    assert!(one.done.is_some());
    assert_eq!((one.digest, one.done), (other.digest, other.done));
}

#[test]
fn a_window_fills_the_path_and_overflows_its_queue() {
    let download = run("reno", 100_000, 5_000_000);
    let seconds = download.done.expect("it completes").as_secs_f64();
    assert!((2.0..2.5).contains(&seconds), "{seconds}");
    assert!(download.dropped > 0);
}

#[test]
fn the_stack_sends_as_many_packets_as_the_window_has() {
    // The stack asks for a whole packet below the window: a window of exactly ten packets would send nine.
    // The server has the handshake at 61.5 ms, and has sent a packet of identifiers before.
    let config = unbounded("reno");
    let at = Time::from_millis(62);
    let info = download(&path(1_000_000), [&config, &config], 300_000, at).ends[SERVER].info();
    assert_eq!((info.cwnd, info.inflight, info.limit), (10, Some(10), Some(Limit::Window)));
}

#[test]
fn the_algorithm_counts_what_the_stack_counts() {
    let mut download = run("cubic", 60_000, 5_000_000);
    let dropped = download.dropped;
    let info = download.ends[SERVER].info();
    assert_eq!(info.lost, dropped, "each loss is one of the queue");
    let stack = unbounded("cubic");
    let stack = Config { control: Control::Stack(StackControl::Reno), ..stack };
    let mut own = crate::common::download(&path(60_000), [&stack, &stack], 5_000_000, Time::from_secs(60));
    assert_eq!(own.ends[SERVER].info().lost, own.dropped);
}

#[test]
fn a_stream_window_of_the_stacks_default_holds_a_download_and_says_so() {
    let path = Path { delay: Time::from_millis(300), rate: Rate::from_mbps(50.0), ..path(10_000_000) };
    let config = with("cubic");
    let mut download = download(&path, [&config, &config], 20_000_000, Time::from_secs(60));
    let done = download.done.expect("it completes");
    let limits = download.ends[SERVER].limits(done);
    assert!(limits.flow_control.as_secs_f64() > 0.5 * done.as_secs_f64(), "{limits:?} of {done}");
    assert_ne!(download.ends[SERVER].info().limit, Some(Limit::FlowControl), "at its end all has credit");
    assert!(download.events[CLIENT].iter().any(|event| matches!(event, Event::Received(_))));
}

#[test]
fn datagrams_have_the_size_of_the_settings() {
    let config = Config { datagram_bytes: 8000, ..unbounded("reno") };
    let mut download = download(&path(1_000_000), [&config, &config], 1_000_000, Time::from_secs(60));
    assert!(download.done.is_some());
    let sent = download.ends[SERVER].info().sent_datagrams;
    assert!((125..150).contains(&sent), "{sent}");
}

/// The pacer's timer releases packets that are no probes, also where the window is full as it does.
#[test]
fn a_paced_sender_whose_losses_are_repaired_has_no_probe_timeouts() {
    let config = Config { pacing: true, ..with("reno") };
    let path = Path { delay: Time::from_millis(300), ..path(40_000) };
    let mut download = download(&path, [&config, &config], 5_000_000, Time::from_secs(60));
    assert!(download.done.is_some() && download.dropped > 0);
    assert_eq!(download.ends[SERVER].info().probe_timeouts, Some(0));
}

#[test]
fn the_time_before_a_connection_opens_is_not_its_handshake() {
    let config = with("reno");
    let mut ends = [perigee_quic::Endpoint::client(&config, 1), perigee_quic::Endpoint::server(&config, 2)];
    let handshakes = |ends: &[perigee_quic::Endpoint; 2], at| ends.each_ref().map(|end| end.limits(at).handshake);
    let [opens, later] = [10, 11].map(Time::from_secs);
    ends[CLIENT].open(opens);
    assert_eq!(handshakes(&ends, later), [Time::from_secs(1), Time::ZERO]);
    let mut datagram = Vec::new();
    let ecn = ends[CLIENT].poll_transmit(opens, &mut datagram).expect("a hello");
    ends[SERVER].on_datagram(later, &datagram, ecn);
    assert_eq!(handshakes(&ends, later + Time::from_secs(1)), [Time::from_secs(2), Time::from_secs(1)]);
}
