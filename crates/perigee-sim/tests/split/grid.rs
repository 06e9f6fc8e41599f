//! A grid of splits under random loss, each with its two legs alone and the same seeds.

use std::ops::ControlFlow;

use perigee_study::{Overrides, Study};

/// A leg: rate in Mbit/s, one-way delay in ms, share of packets lost in percent.
pub(crate) type Leg = (u32, u32, f64);

/// Five legs, combined into 25 splits.
pub(crate) const LEGS: [Leg; 5] = [(100, 5, 0.1), (50, 20, 0.05), (20, 50, 0.02), (30, 270, 0.01), (10, 300, 0.1)];

/// Goodput in Mbit/s.
pub(crate) struct Split {
    /// End-to-end.
    pub(crate) split: f64,
    /// The first and the second leg alone.
    pub(crate) alone: [f64; 2],
}

impl Split {
    /// Relative difference between the split and its slower leg alone.
    pub(crate) fn error(&self) -> f64 {
        self.split / self.alone[0].min(self.alone[1]) - 1.0
    }
}

/// Runs the three downloads with `cubic` for this many seconds.
pub(crate) fn measure(legs: [Leg; 2], seconds: u32) -> Split {
    let whole = goodput(legs, ["server", "client"], seconds);
    Split {
        split: whole,
        alone: [["server", "gateway"], ["gateway", "client"]].map(|ends| goodput(legs, ends, seconds)),
    }
}

/// Goodput of a download between two nodes, split if a proxy is between them.
fn goodput(legs: [Leg; 2], [from, to]: [&str; 2], seconds: u32) -> f64 {
    let link = |name: &str, ends: &str, (rate, delay, loss): Leg| {
        format!(
            "[[links]]\nname = \"{name}\"\nbetween = [{ends}]\nrate = \"{rate} Mbit/s\"\ndelay = \"{delay} ms\"\nqueue = \"3 MB\"\n\
             down = {{ loss = \"{loss} %\" }}\n"
        )
    };
    let proxy = if (from, to) == ("server", "client") { PROXY } else { "" };
    let text = format!(
        "name = \"split\"\nnodes = [\"server\", \"gateway\", \"client\"]\n{HOSTS}{}{}\
         [[flows]]\nname = \"download\"\nfrom = \"{from}\"\nto = \"{to}\"\ncc = \"cubic\"\nduration = \"{seconds} s\"\n{proxy}",
        link("first", "\"server\", \"gateway\"", legs[0]),
        link("second", "\"gateway\", \"client\"", legs[1]),
    );
    let study = Study::parse(&text, "split").unwrap_or_else(|error| panic!("{error}"));
    let mut no_files = |name: &str| Err(format!("there is no file {name}"));
    let runs = study.plan(&Overrides::default(), &mut no_files).unwrap_or_else(|error| panic!("{error}"));
    let result = perigee_sim::run(&runs[0], &mut |_| ControlFlow::Continue(())).expect("the run succeeds");
    result.tables.flows.received_bytes[0] as f64 * 8e-6 / f64::from(seconds)
}

const HOSTS: &str =
    "[hosts]\nrmem = [\"4 KiB\", \"128 KiB\", \"64 MiB\"]\nwmem = [\"4 KiB\", \"16 KiB\", \"64 MiB\"]\n";

const PROXY: &str = "[[proxies]]\nname = \"pep\"\nnode = \"gateway\"\nbuffer = \"10 GB\"\nmemory = \"10 GB\"\n\
                     [proxies.sides.first]\ncc = \"cubic\"\n[proxies.sides.second]\ncc = \"cubic\"\n";
