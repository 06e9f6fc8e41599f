//! A link with a smaller MTU in the middle: the kernel discovers it, the simulator knows it.

use crate::common::{alone, can_emulate, emulate, plan, simulate};
use perigee_results::Tables;

/// The largest mean size of packets in an interval of a link, bytes.
fn mean_size(tables: &Tables, link: &str) -> f64 {
    let links = &tables.links;
    let rows = (0..links.link.len()).filter(|row| &*links.link[*row] == link && links.offered_packets[*row] > 10);
    rows.map(|row| links.offered_bytes[row] as f64 / links.offered_packets[row] as f64).fold(0.0, f64::max)
}

#[test]
fn segments_shrink_to_the_smallest_link_on_the_way() {
    for ip in ["v4", "v6"] {
        let run = plan(&format!(
            r#"
name = "narrow"
nodes = ["server", "near", "far", "client"]
[measure]
series = "200 ms"
[[links]]
name = "wire"
between = ["server", "near"]
rate = "1 Gbit/s"
delay = "1 ms"
[[links]]
name = "satellite"
between = ["near", "far"]
rate = "20 Mbit/s"
delay = "50 ms"
queue = "10 MB"
mtu = "1300 B"
[[links]]
name = "lan"
between = ["far", "client"]
rate = "1 Gbit/s"
delay = "1 ms"
[[flows]]
name = "download"
from = "server"
to = "client"
size = "5 MB"
cc = "reno"
ip = "{ip}"
"#
        ));
        let simulated = simulate(&run);
        assert!((1299.0..=1300.0).contains(&mean_size(&simulated, "satellite.down")));
        if !can_emulate(&run) {
            continue;
        }
        let _alone = alone();
        let emulated = emulate(&run).unwrap_or_else(|error| panic!("{error}"));
        assert!((1290.0..=1300.0).contains(&mean_size(&emulated, "satellite.down")), "{ip}");
        assert!(emulated.flows.completed[0] && emulated.flows.received_bytes == simulated.flows.received_bytes);
        // The too large packets of the first window are lost and sent again in smaller ones.
        let again = emulated.flows.retransmitted_packets[0].expect("counted");
        assert!((1..=20).contains(&again), "{ip}: {again} sent again");
    }
}
