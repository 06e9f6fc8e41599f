//! Connections that take over metrics from those that ended on their route.

use crate::common::{Path, Transfer};
use perigee_cc::Selected;
use perigee_settings::{Config, System};
use perigee_tcp::{Endpoint, RouteMetrics};
use perigee_units::Time;

fn old() -> Config {
    System::named("linux-2.6.20").expect("a system").config()
}

/// A transfer of these segments, of which one is dropped, that begins with what the route remembers.
fn transfer(cc: &str, segments: u64, dropped: &[u64], route: RouteMetrics) -> Transfer {
    let path = Path { queue_bytes: 10_000_000, ..Path::default() };
    let mut transfer = Transfer::new(&path, &old(), cc);
    let selected = Selected::parse(cc, &[]).expect("an algorithm");
    transfer.sender = Endpoint::server(&old(), &selected, 1).remembering(route);
    transfer.drop_data = dropped.to_vec();
    transfer.sender.write(segments * 1448);
    transfer.open();
    transfer
}

fn after(mut transfer: Transfer) -> RouteMetrics {
    transfer.run(Time::from_secs(100), |t| t.sender.acked() == t.sender.written());
    transfer.sender.route_metrics(RouteMetrics::default())
}

#[test]
fn a_second_connection_begins_with_the_threshold_of_the_first_and_three_segments() {
    let begin = |route| {
        let mut second = transfer("reno", 2_000, &[], route);
        second.run(Time::from_secs(10), |t| t.sender.is_established());
        let info = second.sender.info();
        (info.cwnd, info.ssthresh)
    };
    assert_eq!(begin(RouteMetrics::default()), (2, None));
    // Slow start that has not ended leaves a round trip, and no threshold.
    assert_eq!(begin(after(transfer("reno", 60, &[], RouteMetrics::default()))), (3, None));
    let (cwnd, ssthresh) = begin(after(transfer("reno", 2_000, &[200], RouteMetrics::default())));
    let ssthresh = ssthresh.expect("the route remembers one");
    assert!(cwnd == 3 && (30..300).contains(&ssthresh), "{cwnd}, {ssthresh}");
}

#[test]
fn a_longer_round_trip_that_is_remembered_replaces_that_of_the_handshake() {
    let mut first = transfer("reno", 2_000, &[], RouteMetrics::default());
    first.extra_delay = Time::from_millis(300);
    let route = after(first);
    let mut second = transfer("reno", 10, &[], route);
    second.run(Time::from_secs(10), |t| t.sender.is_established());
    let srtt = second.sender.info().srtt;
    assert!(srtt > Path::default().round_trip + Time::from_millis(200), "{srtt}");
}

#[test]
fn bic_has_its_own_threshold_over_that_of_the_route() {
    let route = after(transfer("reno", 2_000, &[200], RouteMetrics::default()));
    let bic = Selected::parse("bic", &[("initial_ssthresh", "100")]).expect("an algorithm");
    let mut second = Transfer::of(&Path::default(), &old(), &bic);
    second.sender = Endpoint::server(&old(), &bic, 1).remembering(route);
    second.sender.write(100_000);
    second.open();
    second.run(Time::from_secs(10), |t| t.sender.is_established());
    assert_eq!(second.sender.info().ssthresh, Some(100));
}
