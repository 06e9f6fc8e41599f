//! Limits of an endpoint by its own count: each limit alone on a path of 100 Mbit/s and 100 ms, whose bandwidth-delay product is 1.25 MB.

use crate::common::{Path, Transfer};
use perigee_settings::Config;
use perigee_tcp::Limits;
use perigee_units::{Bytes, Rate, Time};

/// The limits at 10 s of a transfer by `config` whose application writes `bytes` every 100 ms, or at once all that it ever does.
fn limits(config: &Config, bytes: u64, is_periodic: bool) -> Limits {
    let path = Path { rate: Rate::from_mbps(100.0), queue_bytes: 1_250_000, ..Path::default() };
    let mut transfer = Transfer::new(&path, config, "reno");
    transfer.sender.write(bytes);
    transfer.open();
    for tenth in 1..=100 {
        transfer.run(Time::from_millis(100 * tenth), |_| false);
        if is_periodic && tenth > 2 {
            transfer.sender.write(bytes);
            transfer.flush();
        }
    }
    let established = END - HANDSHAKE;
    let limits = transfer.sender.limits(END);
    assert!(limits.busy <= established, "{limits:?}");
    limits
}

fn buffers(send: u64, receive: u64) -> Config {
    let sized = |most| [4096, most, most].map(Bytes::new);
    Config { wmem: sized(send), rmem: sized(receive), ..Config::default() }
}

fn assert_near(what: &str, time: Time, share: f64) {
    let found = time.as_secs_f64() / (END - HANDSHAKE).as_secs_f64();
    assert!((found - share).abs() < 0.03, "{what}: {found:.3} of the time, not {share}");
}

#[test]
fn a_congestion_window_is_none_of_the_limits() {
    let limits = limits(&buffers(60_000_000, 60_000_000), ENDLESS, false);
    assert_near("busy", limits.busy, 1.0);
    assert_near("the peer's window", limits.peer_window, 0.0);
    assert_near("the send buffer", limits.send_buffer, 0.0);
    assert_near("the application", limits.application, 0.0);
}

#[test]
fn a_small_send_buffer_limits_from_the_first_round_trips_on() {
    let limits = limits(&buffers(400_000, 60_000_000), ENDLESS, false);
    assert_near("busy", limits.busy, 1.0);
    assert_near("the send buffer", limits.send_buffer, 0.96);
    assert_near("the peer's window", limits.peer_window, 0.0);
}

#[test]
fn a_small_window_of_the_peer_limits_from_the_first_round_trips_on() {
    let limits = limits(&buffers(60_000_000, 400_000), ENDLESS, false);
    assert_near("busy", limits.busy, 1.0);
    assert_near("the peer's window", limits.peer_window, 0.96);
    assert_near("the send buffer", limits.send_buffer, 0.0);
}

#[test]
fn an_application_limits_while_its_data_are_in_flight_and_while_there_are_none() {
    let all_written = limits(&Config::default(), 20_000, false);
    assert_near("busy", all_written.busy, 0.03);
    assert_near("the application", all_written.application, 0.98);
    let periodic = limits(&Config::default(), 10_000, true);
    assert_near("busy", periodic.busy, 0.97);
    assert_near("the application", periodic.application, 1.0);
}

#[test]
fn what_nagles_algorithm_holds_back_is_for_the_application_to_fill() {
    let held = limits(&Config { nagle: true, ..Config::default() }, 1448 + 100, true);
    assert_near("the application", held.application, 1.0);
}

const END: Time = Time::from_secs(10);
const HANDSHAKE: Time = Time::from_millis(100);
const ENDLESS: u64 = u64::MAX / 2;
