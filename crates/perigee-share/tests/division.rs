//! Properties of every division.

use perigee_share::{Allocator, Connection, Policy, Subscriber};
use perigee_units::{Bytes, Rate, Time};
use proptest::prelude::*;

const INTERVAL: Time = Time::from_millis(20);
const POLICY: Policy = Policy { short: Bytes::new(10_000), memory: Time::from_secs(10), savings: Bytes::new(100_000) };

fn rates(most: u64) -> impl Strategy<Value = Rate> {
    prop_oneof![Just(Rate::ZERO), Just(Rate::UNLIMITED), (0..most).prop_map(Rate::from_bps)]
}

prop_compose! {
    fn subscriber()(weight in 0u32..50, floor in 0u64..3_000_000, ceiling in rates(30_000_000), saved in 0u64..100_000) -> Subscriber {
        Subscriber { weight, floor: Rate::from_bps(floor), ceiling, saved: Bytes::new(saved) }
    }
}

prop_compose! {
    fn case()(subscribers in prop::collection::vec(subscriber(), 1..12))
        (connections in prop::collection::vec((0..subscribers.len() as u32, 0u64..20_000, rates(5_000_000)), 0..60),
         subscribers in Just(subscribers), rate in 0u64..50_000_000) -> (u64, Vec<Subscriber>, Vec<Connection>) {
        let connection = |(subscriber, spent, demand)| Connection { subscriber, spent: Bytes::new(spent), demand };
        (rate, subscribers, connections.into_iter().map(connection).collect())
    }
}

fn bps(rates: &[Rate]) -> Vec<u64> {
    rates.iter().map(|rate| rate.as_bps()).collect()
}

proptest! {
    #[test]
    fn never_more_than_the_rate_and_never_less_than_can_be_used((rate, mut subscribers, connections) in case()) {
        let mut allocator = Allocator::new(POLICY);
        let each = bps(allocator.allocate(Rate::from_bps(rate), INTERVAL, &mut subscribers, &connections));
        let sum: u64 = each.iter().sum();
        prop_assert!(sum <= rate);
        for (connection, got) in connections.iter().zip(&each) {
            prop_assert!(*got <= connection.demand.as_bps());
        }
        let demand = |at: usize| {
            let its = connections.iter().filter(|connection| connection.subscriber as usize == at);
            let all = its.fold(0u64, |sum, connection| sum.saturating_add(connection.demand.as_bps()));
            all.min(subscribers[at].ceiling.as_bps())
        };
        let demands: Vec<u64> = (0..subscribers.len()).map(demand).collect();
        let usable = demands.iter().fold(0u64, |sum, one| sum.saturating_add(*one)).min(rate);
        // A division rounds down once for each subscriber and each connection.
        prop_assert!(sum + (subscribers.len() + connections.len()) as u64 >= usable, "{sum} of {usable}");
        let floors: Vec<u64> = subscribers.iter().zip(&demands).map(|(one, demand)| one.floor.as_bps().min(*demand)).collect();
        for (at, got) in bps(allocator.of_subscribers()).into_iter().enumerate() {
            prop_assert!(got <= demands[at]);
            prop_assert!(got >= floors[at] || floors.iter().sum::<u64>() > rate, "{got} of a floor of {}", floors[at]);
        }
        prop_assert!(subscribers.iter().all(|one| one.saved <= POLICY.savings));
    }

    #[test]
    fn the_order_of_subscribers_and_connections_changes_nothing((rate, subscribers, connections) in case(), turn in 0usize..60) {
        let mut straight = subscribers.clone();
        let mut allocator = Allocator::new(POLICY);
        let expected = bps(allocator.allocate(Rate::from_bps(rate), INTERVAL, &mut straight, &connections));
        let last = subscribers.len() as u32 - 1;
        let mut reversed: Vec<Subscriber> = subscribers.into_iter().rev().collect();
        let mut turned: Vec<Connection> = connections.clone();
        for connection in &mut turned {
            connection.subscriber = last - connection.subscriber;
        }
        let turn = turn % connections.len().max(1);
        turned.rotate_left(turn);
        // Used before, by others.
        allocator.allocate(Rate::from_bps(rate / 2), INTERVAL, &mut straight.clone(), &connections);
        let mut got = bps(allocator.allocate(Rate::from_bps(rate), INTERVAL, &mut reversed, &turned));
        got.rotate_right(turn);
        prop_assert_eq!(got, expected);
        reversed.reverse();
        prop_assert_eq!(reversed, straight);
    }

    #[test]
    fn equal_subscribers_get_equal_rates(count in 1usize..40, connections in 1u32..5, rate in 1u64..100_000_000) {
        let one = Subscriber { weight: 7, floor: Rate::ZERO, ceiling: Rate::UNLIMITED, saved: Bytes::ZERO };
        let long = |at| Connection { subscriber: at / connections, spent: POLICY.short, demand: Rate::UNLIMITED };
        let all: Vec<Connection> = (0..count as u32 * connections).map(long).collect();
        let mut allocator = Allocator::new(POLICY);
        allocator.allocate(Rate::from_bps(rate), INTERVAL, &mut vec![one; count], &all);
        // Jain's index is 1 where all are equal.
        prop_assert!(allocator.of_subscribers().iter().all(|each| each.as_bps() == rate / count as u64));
    }
}

/// Rates of subscribers over `intervals`, summed: bytes.
fn totals(intervals: usize, connections: impl Fn(usize) -> Vec<Connection>) -> Vec<u64> {
    let anyone = Subscriber { weight: 1, floor: Rate::ZERO, ceiling: Rate::UNLIMITED, saved: POLICY.savings };
    let mut subscribers = [anyone; 3];
    let mut allocator = Allocator::new(POLICY);
    let mut sums = vec![0; 3];
    for at in 0..intervals {
        allocator.allocate(Rate::from_bps(24_000_000), INTERVAL, &mut subscribers, &connections(at));
        for (sum, rate) in sums.iter_mut().zip(allocator.of_subscribers()) {
            *sum += rate.bytes_in(INTERVAL).as_u64();
        }
    }
    sums
}

#[test]
fn savings_let_a_page_load_first_and_one_who_only_loads_pages_gets_no_more_than_a_share() {
    let download = |subscriber| Connection { subscriber, spent: POLICY.short, demand: Rate::UNLIMITED };
    let page = Connection { subscriber: 0, spent: Bytes::ZERO, demand: Rate::UNLIMITED };
    let beside = |_| vec![page, download(1), download(2)];
    assert_eq!(totals(1, beside)[0], 7 * 60_000 / 8, "the first interval is the page's, but for an eighth");
    let sums = totals(5_000, beside);
    assert!(sums[0] - sums[1] <= 2 * POLICY.savings.as_u64() && sums[1] == sums[2], "{sums:?}");
    // A second of silence, a page, again and again: as much as a fair share of the time would be at most.
    let sums = totals(50 * 51, |at| if at % 51 == 50 { beside(at) } else { vec![download(1), download(2)] });
    assert!(sums[0] <= 2_550 * 20_000 + POLICY.savings.as_u64(), "{sums:?}");
}

#[test]
fn short_connections_of_a_subscriber_go_first_and_what_they_leave_is_shared_equally() {
    let mut one = [Subscriber { weight: 1, floor: Rate::ZERO, ceiling: Rate::from_bps(6_000_000), saved: Bytes::ZERO }];
    let of = |spent, demand| Connection { subscriber: 0, spent: Bytes::new(spent), demand: Rate::from_bps(demand) };
    let connections = [of(50_000, 9_000_000), of(9_999, 1_000_000), of(10_000, 9_000_000), of(0, 3_000_000)];
    let mut allocator = Allocator::new(POLICY);
    let rates = bps(allocator.allocate(Rate::from_bps(20_000_000), INTERVAL, &mut one, &connections));
    assert_eq!(rates, [1_000_000, 1_000_000, 1_000_000, 3_000_000]);
    // An eighth is left to the others.
    let connections = [of(50_000, 9_000_000), of(0, 9_000_000), of(10_000, 100_000)];
    let rates = bps(allocator.allocate(Rate::from_bps(20_000_000), INTERVAL, &mut one, &connections));
    assert_eq!(rates, [650_000, 5_250_000, 100_000]);
}

#[test]
fn homes_whose_connections_are_slow_by_their_share_get_no_more_than_those_with_one() {
    // Each of two or more sends less than 26 kB/s, which is what one that is slow by itself gets back.
    let policy = Policy::default();
    let anyone = Subscriber { weight: 1, floor: Rate::ZERO, ceiling: Rate::UNLIMITED, saved: policy.savings };
    let mut homes = [anyone; 48];
    let of_home = |home: u32| (0..1 << (home % 4)).map(move |_| home);
    let of = |subscriber| Connection { subscriber, spent: Bytes::ZERO, demand: Rate::UNLIMITED };
    let mut connections: Vec<Connection> = (0..48).flat_map(of_home).map(of).collect();
    let mut allocator = Allocator::new(policy);
    let mut sums = [0u64; 48];
    for at in 0..7_000 {
        let rates = allocator.allocate(Rate::from_bps(19_600_000), INTERVAL, &mut homes, &connections);
        for (connection, rate) in connections.iter_mut().zip(rates) {
            let is_held = *rate < connection.demand;
            connection.spent = policy.spent(connection.spent, rate.bytes_in(INTERVAL), INTERVAL, is_held);
        }
        // The first transfers of each are short.
        if at >= 2_000 {
            sums.iter_mut().zip(allocator.of_subscribers()).for_each(|(sum, rate)| *sum += rate.as_bps());
        }
    }
    let (least, most) = (sums.iter().min().unwrap(), sums.iter().max().unwrap());
    assert!(most - least <= least / 50, "{sums:?}");
}
