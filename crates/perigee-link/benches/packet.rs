//! Cost of one packet on a link: a plain one, and one with every process of a satellite.
//!
//! `cargo bench -p perigee-link`: each figure is the time of one packet at a tenth over the link's rate, so that the
//! queue stands full and one packet in eleven is dropped.

use criterion::Criterion;
use perigee_link::{strict, Ecn, Link, LinkSpec, Offered, Packet};
use perigee_units::Time;
use std::hint::black_box;

fn link(text: &str) -> Link<u32> {
    let tree = strict::parse(text, "bench").expect("the text is TOML");
    let table = strict::Table::root(&tree).expect("the root is a table");
    let spec = LinkSpec::read(&table, &mut |_| Err("no files".into())).expect("the text is a link");
    Link::new(&spec, 1, "bench")
}

fn transit(c: &mut Criterion, name: &str, text: &str) {
    let (mut link, mut now) = (link(text), Time::ZERO);
    c.bench_function(name, |b| {
        b.iter(|| {
            now += Time::from_nanos(75_000);
            black_box(link.transit(now, 1500, 0, &mut Ecn::NotCapable))
        });
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let c = &mut criterion;
    transit(c, "transit/constant", PLAIN);
    transit(c, "transit/bucket", &format!("{PLAIN}burst = \"6200 B\"\noverhead = \"14 B\"\n"));
    transit(c, "transit/satellite", SATELLITE);
    let (mut link, mut now) = (link(PLAIN), Time::ZERO);
    c.bench_function("offer and poll/constant", |b| {
        b.iter(|| {
            now += Time::from_nanos(75_000);
            let packet = Packet { bytes: 1500, flow: 0, ecn: Ecn::NotCapable, token: 7 };
            let queued = link.offer(now, packet) == Offered::Queued;
            black_box((queued, link.poll(now)))
        });
    });
    criterion.final_summary();
}

const PLAIN: &str = "rate = \"144 Mbit/s\"\ndelay = \"300 ms\"\nqueue = \"1 MB\"\n";

const SATELLITE: &str = r#"
rate = { kind = "fluctuating", mean = "140 Mbit/s", sd = "8 Mbit/s", min = "20 Mbit/s", max = "144 Mbit/s", every = "1 s", memory = "10 s" }
delay = { kind = "jitter", base = "280 ms", every = "200 ms", body = { kind = "normal", sd = "9 ms" }, tail = { kind = "pareto", share = "0.1 %", every = "200 ms", min = "30 ms", shape = 1.2, max = "1.2 s" } }
queue = { bytes = "36 MB", aqm = { kind = "viasat2", threshold = "50 %", drop = "25 %" } }
loss = { kind = "outages", gap = "400 s", length = "100 ms" }
"#;
