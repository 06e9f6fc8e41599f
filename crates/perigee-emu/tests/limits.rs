//! Limits of a sender by the kernel, beside those by the simulator.

use crate::common::{alone, assert_emulated, can_emulate, plan, simulate, NETWORK};
use perigee_results::Tables;
use perigee_study::Run;

/// A download of 8 s over 200 ms, with a rate of the link and a queue of one bandwidth-delay product.
fn run([rate, queue]: [&str; 2], send_buffer: &str, receive_buffer: &str, flow: &str) -> Run {
    let network = NETWORK.replace("queue = \"10 MB\"", &format!("queue = \"{queue}\"")).replace("20 Mbit/s", rate);
    plan(&format!(
        "{network}[hosts]\nwmem = [\"4096 B\", \"16384 B\", \"{send_buffer}\"]\n\
         rmem = [\"4096 B\", \"131072 B\", \"{receive_buffer}\"]\n\
         [[flows]]\nname = \"download\"\nfrom = \"server\"\nto = \"client\"\ncc = \"cubic\"\nduration = \"8 s\"\n{flow}\n"
    ))
}

/// Shares of the flow's duration: busy, and limited by the receiver's window, the send buffer and the application.
fn shares(tables: &Tables) -> [f64; 4] {
    let flows = &tables.flows;
    let columns = [&flows.busy_s, &flows.rwnd_limited_s, &flows.sndbuf_limited_s, &flows.app_limited_s];
    columns.map(|column| column[0].expect("a time") / flows.duration_s[0])
}

#[test]
fn a_send_buffer_and_a_receivers_window_limit_as_long_as_the_kernel_says() {
    each_limit_takes_as_long(&[
        ("a send buffer", run(SLOW, "300 kB", "60 MB", ""), [0, 80, 0]),
        ("a window of the receiver", run(SLOW, "60 MB", "400 kB", ""), [80, 0, 0]),
    ]);
}

#[test]
#[ignore = "long: make torture"]
fn each_limit_takes_as_long_as_the_kernel_says() {
    each_limit_takes_as_long(&[
        ("a congestion window", run(SLOW, "60 MB", "60 MB", ""), [0, 0, 0]),
        ("a send buffer", run(SLOW, "300 kB", "60 MB", ""), [0, 80, 0]),
        ("a send buffer of several writes", run(FAST, "2 MB", "60 MB", ""), [0, 70, 0]),
        ("a window of the receiver", run(SLOW, "60 MB", "400 kB", ""), [80, 0, 0]),
        ("an application", run(SLOW, "60 MB", "60 MB", "offered = \"4 Mbit/s\""), [0, 0, 80]),
    ]);
}

/// Compares paths: a name of what limits, the run, and the least shares (%) of the receiver's window, the send buffer and the application.
fn each_limit_takes_as_long(paths: &[(&str, Run, [u8; 3])]) {
    if !can_emulate(&paths[0].1) {
        return;
    }
    let _alone = alone();
    for (what, run, least_percent) in paths {
        let simulated = shares(&simulate(run));
        for (share, least) in simulated[1..].iter().zip(least_percent) {
            assert!(*share * 100.0 >= f64::from(*least), "{what}: {simulated:.3?}");
        }
        assert_emulated(run, LATEST_US, |emulated| {
            let emulated = shares(emulated);
            println!("{what}: simulated {simulated:.3?}, emulated {emulated:.3?}");
            for (ours, theirs) in simulated.iter().zip(&emulated) {
                assert!(
                    (ours - theirs).abs() < MOST_APART,
                    "{what}: simulated {simulated:.3?}, emulated {emulated:.3?}"
                );
            }
        });
    }
}

const SLOW: [&str; 2] = ["20 Mbit/s", "500 kB"];
const FAST: [&str; 2] = ["100 Mbit/s", "2.5 MB"];
/// Largest difference, as a share of the flow's duration.
const MOST_APART: f64 = 0.03;
/// How late packets may be released, us.
const LATEST_US: f64 = 5_000.0;
