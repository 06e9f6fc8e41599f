//! Bandwidth on demand under the real kernel's TCP and in the simulator: the same grants, the same goodput.

use crate::common::{alone, assert_emulated, can_emulate, plan, simulate};
use perigee_results::Tables;
use perigee_study::Run;

/// A download through a terminal with 0.24 Mbit/s guaranteed and up to 3.12 Mbit/s on demand, 220 ms after
/// a request.
fn study() -> Run {
    plan(
        r#"
name = "tdma"
nodes = ["server", "client"]
[measure]
series = "100 ms"
[[links]]
name = "satellite"
between = ["server", "client"]
delay = "60 ms"
rate = "10 Mbit/s"
[links.down]
queue = "500 kB"
[links.down.rate]
kind = "tdma"
superframe = "100 ms"
slots = 32
payload = "1500 B"
terminals = 4
fixed = 2
requests = "both"
assignment = "100 ms"
propagation = "120 ms"
[[flows]]
name = "download"
from = "server"
to = "client"
duration = "10 s"
cc = "cubic"
"#,
    )
}

/// Mean and maximum of the granted rate, Mbit/s.
fn granted_mbps(tables: &Tables) -> (f64, f64) {
    let links = &tables.links;
    let rates: Vec<f64> = links
        .link
        .iter()
        .zip(&links.rate_mbps)
        .filter(|(link, _)| &***link == "satellite.down")
        .map(|(_, rate)| *rate)
        .collect();
    (rates.iter().sum::<f64>() / rates.len() as f64, rates.iter().copied().fold(0.0, f64::max))
}

#[test]
fn a_channel_grants_the_kernel_what_it_grants_the_simulator() {
    let run = study();
    let simulated = simulate(&run);
    let (mean, most) = granted_mbps(&simulated);
    // 32 units less the fixed ones of three others, 120 kbit/s each.
    assert!((most - 3.12).abs() < 1e-6, "at most 26 units: {most}");
    assert!(mean > 1.5, "{mean}");
    assert!(simulated.flows.goodput_mbps[0] > Some(1.5), "{:?}", simulated.flows.goodput_mbps);
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    assert_emulated(&run, LATEST_US, |emulated| {
        let (ours, theirs) =
            (simulated.flows.goodput_mbps[0].expect("a goodput"), emulated.flows.goodput_mbps[0].expect("a goodput"));
        assert!((ours / theirs - 1.0).abs() < 0.1, "goodput simulated {ours}, emulated {theirs} Mbit/s");
        let theirs = granted_mbps(emulated);
        assert!((mean / theirs.0 - 1.0).abs() < 0.1, "granted: simulated {mean}, emulated {theirs:?} Mbit/s");
    });
}

/// Less than half a slot.
const LATEST_US: f64 = 1_500.0;
