//! Instructions per data segment sent and its ACK on six paths of the benchmarks, counted by valgrind and limited to the recorded
//! figures. Cargo's test build has other figures than the release build in `benches/README.md`, but shows the same growth.
//!
//! The program runs itself under valgrind for two sizes of each path; their difference excludes start-up. After an intended growth, or
//! with another compiler, copy the figures that the test prints to [`PATHS`].

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test runs programs, and is told by the environment which part it plays"
)]

use std::ops::{ControlFlow, Range};
use std::process::Command;
use std::sync::Mutex;

use perigee_study::{Overrides, Study};

/// The compiler on whose version the figures depend.
const COMPILER: &str = "rustc 1.95.0";
/// Environment variable of a program under valgrind: the number of its path, and which of the two sizes.
const PART: &str = "PERIGEE_COUNTED";
/// Output of a program under valgrind before the number of its segments.
const SAID: &str = "segments: ";

/// A path whose instructions are on record.
struct Path {
    name: &'static str,
    /// Text of the study.
    study: &'static str,
    settings: &'static [&'static str],
    /// The setting with its smaller and its larger value.
    sizes: (&'static str, [&'static str; 2]),
    /// Instructions by segment sent; of a split connection, over each leg.
    recorded: u64,
}

const DOWNLOAD: &str = include_str!("../../../benches/download.toml");
const POPULATION: &str = include_str!("../../../benches/population.toml");
const SPLIT: &str = include_str!("../../../benches/split.toml");

const PATHS: [Path; 6] = [
    Path {
        name: "no loss",
        study: DOWNLOAD,
        settings: &["hosts.cwnd_clamp=27624"],
        sizes: ("flow.size", ["20 MB", "40 MB"]),
        recorded: 1_937,
    },
    Path {
        name: "0.1 % lost",
        study: DOWNLOAD,
        settings: &["hosts.cwnd_clamp=41436", "links.satellite.down.loss=0.1 %"],
        sizes: ("flow.size", ["5 MB", "10 MB"]),
        recorded: 2_750,
    },
    Path {
        name: "window of 10 packets, bbr",
        study: DOWNLOAD,
        settings: &[
            "flow.cc=bbr",
            "hosts.cwnd_clamp=600000",
            "links.satellite.rate=200 kbit/s",
            "links.satellite.queue=15000 B",
            "measure.series=off",
        ],
        sizes: ("flow.size", ["5 MB", "10 MB"]),
        recorded: 3_355,
    },
    Path {
        name: "a queue that decides on departure",
        study: DOWNLOAD,
        settings: &[
            "hosts.cwnd_clamp=27624",
            "links.satellite.down.queue.aqm={kind=\"codel\", target=\"1 h\", interval=\"1 h\"}",
        ],
        sizes: ("flow.size", ["5 MB", "10 MB"]),
        recorded: 3_422,
    },
    Path {
        name: "a population of short connections",
        study: POPULATION,
        settings: &[],
        sizes: ("time_limit", ["4 s", "5 s"]),
        recorded: 22_190,
    },
    Path {
        name: "three legs of two proxies",
        study: SPLIT,
        settings: &[],
        sizes: ("flows.split.size", ["4 MB", "8 MB"]),
        recorded: 3_867,
    },
];

#[test]
fn a_segment_takes_no_more_instructions_than_on_record() {
    no_more_than_on_record(0..3);
}

#[test]
#[ignore = "long: make torture"]
fn segments_of_other_paths_take_no_more_instructions_than_on_record() {
    no_more_than_on_record(3..PATHS.len());
}

/// Counts the instructions of the paths of these numbers; under valgrind, carries out the part that the environment names.
fn no_more_than_on_record(numbers: Range<usize>) {
    if let Ok(part) = std::env::var(PART) {
        let (path, size) = part.split_once(' ').expect("a path and a size");
        return carry_out(&PATHS[path.parse::<usize>().expect("a number")], size.parse().expect("a number"));
    }
    if !cfg!(target_arch = "x86_64") || std::env::var("RUSTFLAGS").is_ok_and(|flags| !flags.is_empty()) {
        println!("skipped: the figures are of another target or other flags of the compiler");
        return;
    }
    match own_compiler() {
        Some(own) if own.starts_with(COMPILER) => {}
        own => {
            println!(
                "skipped: the figures are of {COMPILER}, and this is {}",
                own.as_deref().unwrap_or("another compiler")
            );
            return;
        }
    }
    if count(&["--list"], "").is_none() {
        println!("skipped: valgrind is not installed, or cannot run this program");
        return;
    }
    let grown = Mutex::new(Vec::new());
    let (grown_now, numbers) = (&grown, &numbers);
    std::thread::scope(|scope| {
        for every_second in 0..2 {
            scope.spawn(move || {
                for number in numbers.clone().skip(every_second).step_by(2) {
                    let path = &PATHS[number];
                    let [less, more] = [0, 1].map(|size| {
                        count(&["--nocapture"], &format!("{number} {size}")).expect("the run under valgrind succeeds")
                    });
                    let by_segment = (more.0 - less.0) / (more.1 - less.1);
                    println!("{}: {by_segment} instructions by segment, {} on record", path.name, path.recorded);
                    if by_segment * 100 > path.recorded * 105 {
                        grown_now.lock().expect("no thread panicked").push(path.name);
                    }
                }
            });
        }
    });
    let grown = grown.into_inner().expect("no thread panicked");
    assert!(grown.is_empty(), "over 5 % more instructions by segment than on record: {}", grown.join("; "));
}

/// Version of the compiler that Cargo uses.
fn own_compiler() -> Option<String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(rustc).arg("--version").output().ok()?;
    String::from_utf8(output.stdout).ok()
}

/// Instructions of this program under valgrind, and the segments it said; `None` if it failed.
fn count(arguments: &[&str], part: &str) -> Option<(u64, u64)> {
    let program = std::env::current_exe().expect("a program has a file");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).args(arguments);
    if !part.is_empty() {
        command.env(PART, part);
    }
    let output = command.output().ok().filter(|output| output.status.success())?;
    let after = |bytes: &[u8], mark: &str| {
        String::from_utf8_lossy(bytes).split(mark).nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok())
    };
    Some((after(&output.stderr, "Collected :")?, after(&output.stdout, SAID).unwrap_or(0)))
}

/// A path at its smaller or larger size, `0` or `1`.
fn carry_out(path: &Path, size: usize) {
    let study = Study::parse(path.study, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    let (key, sizes) = path.sizes;
    let settings: Vec<_> =
        path.settings.iter().map(|&set| set.to_owned()).chain([format!("{key}={}", sizes[size])]).collect();
    let settings = Overrides::new(&settings, false).expect("settings");
    let runs = study.plan(&settings, &mut |name: &str| Err(format!("{name} is not needed"))).expect("a plan");
    let result = perigee_sim::run(&runs[0], &mut |_| ControlFlow::Continue(())).expect("the run succeeds");
    let sent: u64 = result.tables.flows.sent_packets.iter().flatten().sum();
    println!("{SAID}{sent}");
}
