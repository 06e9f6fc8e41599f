//! Cost of QUIC: a download of 500 MB over 100 Mbit/s x 40 ms by each congestion control named, in turns.
//!
//! `reno` is the algorithm of `algorithms/`, `stack-reno` the stack's own. Prints a line of JSON for each run: datagrams both ways,
//! packets with data, processor time, and bytes that the adapter holds for packets in flight.
//!
//! `cost MEGABYTES CONTROL...`, or `cost memory`: bytes that an idle connection holds, each end.

#![allow(clippy::disallowed_methods, reason = "the program measures the time that the processor spends on it")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{download, unbounded, Path, CLIENT, SERVER};
use perigee_quic::{Config, Control, StackControl};
use perigee_units::{Bytes, Rate, Time};

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.peek().is_some_and(|word| word == "memory") {
        return println!("{{\"bytes_of_an_end\": {}}}", bytes_of_an_end());
    }
    let megabytes: u64 = arguments.next().and_then(|text| text.parse().ok()).expect("cost MEGABYTES CONTROL...");
    let path = Path {
        rate: Rate::from_mbps(100.0),
        delay: Time::from_millis(20),
        queue: Bytes::new(500_000),
        silence: Time::MAX..Time::MAX,
        loses: |_| false,
    };
    for name in arguments {
        let config = match name.strip_prefix("stack-") {
            None => unbounded(&name),
            Some(own) => Config { control: Control::Stack(control(own)), ..unbounded("reno") },
        };
        let begin = processor_ns();
        let download = download(&path, [&config, &config], megabytes * 1_000_000, Time::from_secs(3600));
        let spent = processor_ns() - begin;
        let [acks, data] = [CLIENT, SERVER].map(|end| download.departures[end].len());
        println!(
            "{{\"control\": \"{name}\", \"datagrams\": {}, \"data\": {data}, \"cpu_s\": {:.3}, \"ledger_bytes\": {}, \
             \"seconds\": {:.2}}}",
            acks + data,
            spent as f64 / 1e9,
            download.ends[SERVER].ledger_bytes(),
            download.done.map_or(f64::NAN, Time::as_secs_f64),
        );
    }
}

/// Memory of one end of an idle connection that has transferred a megabyte.
fn bytes_of_an_end() -> u64 {
    const CONNECTIONS: u64 = 1000;
    let path = Path {
        rate: Rate::from_mbps(1000.0),
        delay: Time::from_millis(1),
        queue: Bytes::new(10_000_000),
        silence: Time::MAX..Time::MAX,
        loses: |_| false,
    };
    let config = unbounded("reno");
    let one = |_| download(&path, [&config, &config], 1_000_000, Time::from_secs(10)).ends;
    let warm: Vec<_> = (0..10).map(one).collect();
    let before = resident_bytes();
    let ends: Vec<_> = (0..CONNECTIONS).map(one).collect();
    let bytes = resident_bytes() - before;
    drop((warm, ends));
    bytes / CONNECTIONS / 2
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux counts the memory of processes");
    let pages: u64 = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

fn control(name: &str) -> StackControl {
    match name {
        "reno" => StackControl::Reno,
        "cubic" => StackControl::Cubic,
        "bbr3" => StackControl::Bbr3,
        _ => panic!("stack-{name} is none of stack-reno, stack-cubic, stack-bbr3"),
    }
}

/// Time on a processor, ns.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux counts the time of processes");
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("a number")
}
