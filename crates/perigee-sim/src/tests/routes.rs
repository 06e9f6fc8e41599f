//! Route changes with packets in flight.

use perigee_results::Tables;

use super::{carry_out, plan, result};
use crate::carriage::Carriage;

/// A gateway and a terminal with two links between them, and these flows.
pub(super) fn two_paths(leo: &str, rest: &str) -> String {
    format!(
        r#"
        name = "test"
        nodes = ["server", "gateway", "terminal", "client"]
        time_limit = "60 s"
        [[links]]
        name = "internet"
        between = ["server", "gateway"]
        rate = "1 Gbit/s"
        delay = "5 ms"
        [[links]]
        name = "leo"
        between = ["gateway", "terminal"]
        rate = "50 Mbit/s"
        delay = "20 ms"
        queue = "500 kB"
        {leo}
        [[links]]
        name = "geo"
        between = ["gateway", "terminal"]
        rate = "10 Mbit/s"
        delay = "250 ms"
        queue = "500 kB"
        [[links]]
        name = "home"
        between = ["terminal", "client"]
        rate = "1 Gbit/s"
        delay = "1 ms"
        {rest}
        "#
    )
}

/// Both directions switch to `geo` under this condition.
pub(super) fn over_geo(when: &str) -> String {
    format!(
        "[[routes]]\nnode = \"gateway\"\nto = \"client\"\nvia = \"geo\"\n{when}\n\
         [[routes]]\nnode = \"terminal\"\nto = \"server\"\nvia = \"geo\"\n{when}\n"
    )
}

pub(super) const PINGS: &str = r#"
    [[flows]]
    name = "ping"
    kind = "ping"
    from = "server"
    to = "client"
    interval = "100 ms"
    packet = "84 B"
    repeat = 300
"#;
const DARK: &str = r#"loss = { kind = "periodic", period = "1000 s", phase = "8 s", length = "5 s", loss = "100 %" }"#;

/// Round-trip times of the pings and their counts, in bins of a millisecond.
fn round_trips(tables: &Tables) -> Vec<(f64, u64)> {
    let of_whole = tables.rtt.phase.iter().map(|phase| &**phase == "all");
    let bins = tables.rtt.rtt_ms.iter().copied().zip(tables.rtt.count.iter().copied());
    bins.zip(of_whole).filter(|(_, of_whole)| *of_whole).map(|(bin, _)| bin).collect()
}

#[test]
fn pings_take_the_other_link_during_a_period() {
    let tables = result(&two_paths("", &(over_geo("start = \"10 s\"\nend = \"20 s\"") + PINGS))).tables;
    assert_eq!(tables.flows.lost_packets, [Some(0)]);
    let (leo, geo): (Vec<_>, Vec<_>) = round_trips(&tables).into_iter().partition(|(rtt_ms, _)| *rtt_ms < 100.0);
    let count = |bins: &[(f64, u64)]| bins.iter().map(|(_, count)| count).sum::<u64>();
    // Packets in flight at a change leave over one link and return over the other.
    assert!((98..=102).contains(&count(&geo)), "{geo:?}");
    assert_eq!(count(&leo) + count(&geo), 300);
    assert!(leo.iter().all(|(rtt_ms, _)| (52.0..53.5).contains(rtt_ms)), "{leo:?}");
}

#[test]
fn a_dark_link_is_left_after_it_is_detected_and_used_again_after_it_is_restored() {
    let when = "while_dark = \"leo\"\ndetect = \"2 s\"\nrestore = \"4 s\"";
    let tables = result(&two_paths(DARK, &(over_geo(when) + PINGS))).tables;
    // Dark from 8 to 13 s; over `geo` from 10 to 17 s. Both directions lose packets for two seconds.
    let lost = tables.flows.lost_packets[0].unwrap_or_default();
    assert!((19..=21).contains(&lost), "{lost}");
    let geo = round_trips(&tables).iter().filter(|(rtt_ms, _)| *rtt_ms > 500.0).map(|(_, count)| count).sum::<u64>();
    assert!((66..=70).contains(&geo), "{geo}");
}

#[test]
fn a_transfer_continues_over_the_other_link_and_every_byte_arrives() {
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"server\"\nto = \"client\"\nsize = \"60 MB\"\n";
    let when = "while_dark = \"leo\"\ndetect = \"2 s\"\nrestore = \"4 s\"";
    let tables = result(&two_paths(DARK, &(over_geo(when) + flow))).tables;
    assert_eq!(&*tables.flows.outcome[0], "completed");
    assert_eq!(tables.flows.received_bytes, [60_000_000]);
    let carried = |name: &str| {
        let rows = tables.links.link.iter().zip(&tables.links.delivered_bytes);
        rows.filter(|(link, _)| &***link == name).map(|(_, bytes)| *bytes).sum::<u64>()
    };
    assert!(carried("geo.down") > 1_000_000, "{}", carried("geo.down"));
    assert!(carried("leo.down") > 40_000_000, "{}", carried("leo.down"));
}

#[test]
fn the_last_valid_route_is_taken() {
    let routes = over_geo("") + &over_geo("start = \"10 s\"").replace("geo", "leo") + &over_geo("start = \"20 s\"");
    let tables = result(&two_paths("", &(routes + PINGS))).tables;
    let geo = round_trips(&tables).iter().filter(|(rtt_ms, _)| *rtt_ms > 100.0).map(|(_, count)| count).sum::<u64>();
    assert!((198..=202).contains(&geo), "{geo}");
}

#[test]
fn legs_of_a_split_flow_also_change_links() {
    let proxy = |node: &str, links: [&str; 3]| {
        let sides = links.map(|link| format!("[proxies.sides.{link}]\ncc = \"cubic\"\n")).concat();
        format!("[[proxies]]\nname = \"{node}\"\nnode = \"{node}\"\nflows = [\"f\"]\n{sides}")
    };
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"server\"\nto = \"client\"\nsize = \"40 MB\"\n";
    let proxies = proxy("gateway", ["internet", "leo", "geo"]) + &proxy("terminal", ["leo", "geo", "home"]);
    let tables = result(&two_paths("", &(over_geo("start = \"2 s\"\nend = \"5 s\"") + flow + &proxies))).tables;
    assert_eq!(tables.flows.received_bytes, [40_000_000; 4]);
    let geo = tables.links.link.iter().zip(&tables.links.delivered_packets).filter(|(link, _)| &***link == "geo.down");
    assert!(geo.map(|(_, packets)| *packets).sum::<u64>() > 500);
}

/// Datagrams of 1 kB fill the queue of `leo` for 1.5 s by 2 Mbit/s more than it sends; then `geo` is taken, with this
/// rule for those that wait.
fn with_waiting(rule: &str, geo_queue: &str) -> String {
    let flow = "[[flows]]\nname = \"f\"\nkind = \"udp\"\nfrom = \"server\"\nto = \"client\"\nrate = \"52 Mbit/s\"\n\
        packet = \"1 kB\"\nduration = \"1.5 s\"\n";
    let geo = "delay = \"250 ms\"\n        queue = ";
    two_paths("", &(over_geo(&format!("start = \"1.5 s\"\nwaiting = \"{rule}\"")) + flow))
        .replace(&format!("{geo}\"500 kB\""), &format!("{geo}\"{geo_queue}\""))
}

/// Packets lost by the flow, delivered by `geo.down`, and dropped by its full queue.
fn fates(tables: &Tables) -> [u64; 3] {
    let of_geo = |column: &[u64]| -> u64 {
        tables
            .links
            .link
            .iter()
            .zip(column)
            .filter(|(link, _)| &***link == "geo.down")
            .map(|(_, packets)| *packets)
            .sum()
    };
    let lost = tables.flows.lost_packets[0].unwrap_or_default();
    [lost, of_geo(&tables.links.delivered_packets), of_geo(&tables.links.dropped_queue_full_packets)]
}

#[test]
fn packets_that_wait_for_the_old_link_are_kept_moved_or_lost_each_once() {
    let of = |rule| fates(&result(&with_waiting(rule, "500 kB")).tables);
    let [kept, moved, lost] = [of("kept"), of("moved"), of("lost")];
    // A surplus of 375 kB, less the headers' part.
    let waiting = lost[0];
    assert!((300..=400).contains(&waiting), "{waiting}");
    assert_eq!(kept[0], 0);
    // Packets that leave the server just before the change reach the gateway after it, and take `geo` under each rule.
    assert_eq!(kept[1], lost[1]);
    assert_eq!(moved, [0, kept[1] + waiting, 0]);
}

#[test]
fn moved_packets_that_find_the_new_queue_full_are_dropped_by_it() {
    let waiting = fates(&result(&with_waiting("lost", "100 kB")).tables)[0];
    let [lost, delivered, dropped] = fates(&result(&with_waiting("moved", "100 kB")).tables);
    assert!(dropped > 100, "{dropped}");
    assert_eq!(lost, dropped);
    let after = fates(&result(&with_waiting("kept", "100 kB")).tables)[1];
    assert_eq!(delivered + dropped, waiting + after);
}

#[test]
fn waiting_packets_change_links_alike_on_every_carriage() {
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"server\"\nto = \"client\"\nsize = \"20 MB\"\n";
    for rule in ["kept", "moved", "lost"] {
        let when = format!("start = \"2 s\"\nend = \"5 s\"\nwaiting = \"{rule}\"");
        let run = plan(&two_paths("", &(over_geo(&when) + flow)));
        let [fast, slow] =
            [Carriage::default(), Carriage::PLAIN].map(|carriage| carry_out(&run, carriage).unwrap().tables);
        assert_eq!(fast.flows.received_bytes, [20_000_000], "{rule}");
        assert_eq!(fast, slow, "{rule}");
    }
}
