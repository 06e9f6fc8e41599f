//! A proxy that owns the queue of a link: the queue is short and the link full, subscribers share it whatever they open, and pages load as
//! on an idle link.

use perigee_results::Tables;

use super::proxies::gateway;
use super::{carry_out, plan, result};
use crate::carriage::Carriage;

/// Subscribers `a` to `d` beside the client, behind a geostationary link of 20/2 Mbit/s, whose queue holds a bandwidth-delay product, and a
/// proxy before it.
fn network(link: &str, satellite: &str, flows: &str) -> String {
    let homes = ["a", "b", "c", "d"].map(|home| {
        format!("[[links]]\nname = \"{home}\"\nbetween = [\"terminal\", \"{home}\"]\nrate = \"1 Gbit/s\"\ndelay = \"1 ms\"\n")
    });
    let satellite = format!(
        "down = {{ rate = \"20 Mbit/s\", delay = \"290 ms\", queue = \"1.5 MB\"{satellite} }}\n\
         up = {{ rate = \"2 Mbit/s\", delay = \"290 ms\", queue = \"150 kB\" }}"
    );
    // The side of the satellite is its last table.
    let proxy = gateway("buffer = \"8 MB\"") + link + "\n";
    let text = super::proxies::network(&satellite, &(homes.concat() + &proxy), flows);
    text.replacen("\"client\"]", "\"client\", \"a\", \"b\", \"c\", \"d\"]", 1)
}

/// The proxy owns the queue, or leaves it to the link.
const OWNED: &str = "link = {}";
const LEFT: &str = "";

fn download(to: &str, count: u32, duration: &str) -> String {
    format!(
        "[[flows]]\nname = \"{to}\"\nfrom = \"server\"\nto = \"{to}\"\ncount = {count}\nduration = \"{duration}\"\n\
         start_jitter = \"2 s\"\n"
    )
}

/// Mean backlog of the satellite link, bytes, and the share of its capacity that it delivered, between two instants.
fn link_between(tables: &Tables, from: f64, to: f64) -> (f64, f64) {
    let links = &tables.links;
    let rows: Vec<usize> = (0..links.link.len())
        .filter(|row| {
            &*links.link[*row] == "satellite.down" && links.t_s[*row] > from + 0.01 && links.t_s[*row] < to + 0.01
        })
        .collect();
    let backlog: u64 = rows.iter().map(|row| links.queue_bytes[*row]).sum();
    let carried: u64 = rows.iter().map(|row| links.delivered_bytes[*row]).sum();
    let capacity: f64 = rows.iter().map(|row| links.rate_mbps[*row] * 1e6 / 8.0 * 0.1).sum();
    (backlog as f64 / rows.len() as f64, carried as f64 / capacity)
}

/// Payload that a subscriber received between two instants.
fn received_between(tables: &Tables, home: &str, from: f64, to: f64) -> f64 {
    let series = &tables.series;
    let of = |row: &usize| {
        let (flow, at) = (&series.flow[*row], series.t_s[*row]);
        series.leg[*row].is_none() && flow.split('.').next() == Some(home) && at > from + 0.01 && at < to + 0.01
    };
    (0..series.flow.len()).filter(of).map(|row| series.goodput_mbps[row]).sum::<f64>() * 0.1
}

fn jain(shares: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) = (shares.iter().sum(), shares.iter().map(|share| share * share).sum());
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn the_queue_forms_in_the_proxy_and_subscribers_share_the_full_link_whatever_they_open() {
    let homes = [("a", 1), ("b", 2), ("c", 4), ("d", 8)];
    let flows = homes.map(|(home, count)| download(home, count, "60 s")).concat();
    let run = |link: &str| {
        let tables = result(&network(link, "", &flows)).tables;
        let (backlog, used) = link_between(&tables, 20.0, 60.0);
        let fairness = jain(&homes.map(|(home, _)| received_between(&tables, home, 20.0, 60.0)));
        (backlog, used, fairness, tables.proxies.unread_bytes.iter().max().copied().unwrap_or_default())
    };
    let (backlog, used, fairness, unread) = run(OWNED);
    // 20 ms of the link.
    assert!(backlog < 50_000.0, "{backlog} B wait for the link");
    assert!(used > 0.97, "{used} of the link");
    assert!(fairness > 0.98, "Jain's index of subscribers is {fairness}");
    assert!(unread > 0, "the window of the leg before closes");
    let (backlog, _, fairness, _) = run(LEFT);
    assert!(backlog > 300_000.0 && fairness < 0.9, "{backlog} B wait, and Jain's index is {fairness}, without");
}

#[test]
fn pages_beside_downloads_of_others_load_as_on_an_idle_link() {
    let pages = "[[flows]]\nname = \"pages\"\nkind = \"pages\"\nfrom = \"server\"\nto = \"client\"\nstart = \"20 s\"\n\
                 duration = \"100 s\"\npage = \"small\"\npause = \"2 s\"\n";
    let loads = |link: &str, downloads: &str| {
        let mut loads: Vec<f64> = result(&network(link, "", &format!("{downloads}{pages}")))
            .tables
            .pages
            .load_ms
            .iter()
            .flatten()
            .copied()
            .collect();
        loads.sort_by(f64::total_cmp);
        assert!(loads.len() > 5, "{loads:?}");
        loads[(loads.len() * 95).div_ceil(100) - 1]
    };
    let downloads = ["a", "b", "c", "d"].map(|home| download(home, 1, "130 s")).concat();
    let (idle, beside, without) = (loads(OWNED, ""), loads(OWNED, &downloads), loads(LEFT, &downloads));
    assert!(beside < 1.2 * idle, "{beside} ms beside downloads, {idle} ms alone");
    assert!(without > 1.3 * beside, "{without} ms where the link has the queue, {beside} ms where the proxy has it");
}

#[test]
fn a_halved_rate_is_followed_within_two_round_trips_of_its_being_told() {
    let halved = ", timeline = [\"time_s, rate_mbps\", \"0, 20\", \"40, 10\"]";
    let flows = ["a", "b", "c", "d"].map(|home| download(home, 1, "80 s")).concat();
    for told in [0.0, 2.0] {
        let text = network(&format!("link = {{ told = \"{told} s\" }}"), halved, &flows);
        let text = text.replace("rate = \"20 Mbit/s\", delay = \"290 ms\"", "delay = \"290 ms\"");
        let tables = result(&text).tables;
        let (_, sent) = link_between(&tables, 40.0 + told + 0.1, 40.0 + told + 1.2);
        assert!(sent < 1.0, "{sent} of the new rate is sent in the next two round trips, told after {told} s");
        let (backlog, used) = link_between(&tables, 40.0 + told + 1.2, 75.0);
        assert!(used > 0.96, "{used} of the link, told after {told} s");
        // Until it learns of it, the queue grows by half of the rate; what is left of the link's share drains it slowly.
        assert!(backlog < if told > 0.0 { 1_500_000.0 } else { 50_000.0 }, "{backlog} B wait, told after {told} s");
    }
}

#[test]
fn what_bypasses_the_proxy_leaves_its_share() {
    let call = "[[flows]]\nname = \"call\"\nkind = \"udp\"\nfrom = \"server\"\nto = \"client\"\nrate = \"5 Mbit/s\"\n\
                packet = \"1200 B\"\nstart = \"10 s\"\nduration = \"50 s\"\n";
    let flows = ["a", "b"].map(|home| download(home, 2, "60 s")).concat() + call;
    let tables = result(&network(OWNED, "", &flows)).tables;
    let (backlog, used) = link_between(&tables, 20.0, 60.0);
    assert!(backlog < 50_000.0 && used > 0.97, "{backlog} B wait, {used} of the link");
    let lost = tables.links.dropped_packets.iter().sum::<u64>();
    assert_eq!(lost, 0, "packets lost beside the call");
}

#[test]
fn results_do_not_depend_on_how_packets_are_carried_where_a_proxy_owns_a_queue() {
    let pages = "[[flows]]\nname = \"pages\"\nkind = \"pages\"\nfrom = \"server\"\nto = \"client\"\npage = \"small\"\nduration = \"10 s\"\n\
                 [[flows]]\nname = \"call\"\nkind = \"call\"\nfrom = \"server\"\n\
                 to = \"client\"\nrate = \"1 Mbit/s\"\nduration = \"10 s\"\n";
    let run = plan(&network(OWNED, ", loss = \"0.1 %\"", &(download("a", 2, "15 s") + pages)));
    let ahead = Carriage::default();
    let carried = |carriage: Carriage| carry_out(&run, carriage).expect("the run succeeds").tables;
    let tables = carried(ahead);
    assert_eq!(tables, carried(ahead), "a second run");
    assert_eq!(tables, carried(Carriage { links_store_packets: true, ..ahead }), "with packets stored by the links");
    assert_eq!(tables, carried(Carriage::PLAIN), "without fast paths");
}
