//! Instructions per delivered segment and its ACK on the benchmark path without loss, counted by valgrind and limited to the recorded
//! figure. Cargo's test build has other figures than the release build in `benches/README.md`, but shows the same growth.
//!
//! The program runs itself under valgrind for two sizes; their difference excludes start-up. After an intended growth, or with another
//! compiler, copy the figure that the test prints to [`RECORDED`].

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test runs programs, and is told by the environment which part it plays"
)]

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use perigee_study::{Overrides, Study};

/// Instructions per segment, and the compiler version, on which they depend.
const RECORDED: (u64, &str) = (1_763, "rustc 1.95.0");
/// Sizes of the two downloads, MB.
const SIZES: [u64; 2] = [20, 40];
/// Payload of a packet of 1500 bytes with timestamps.
const SEGMENT_BYTES: u64 = 1448;
/// Environment variable with the size of the download under valgrind, MB.
const SIZE: &str = "PERIGEE_COUNTED_MB";

#[test]
fn a_segment_takes_no_more_instructions_than_on_record() {
    if let Ok(size) = std::env::var(SIZE) {
        return download(&size);
    }
    let (recorded, compiler) = RECORDED;
    if !cfg!(target_arch = "x86_64") || std::env::var("RUSTFLAGS").is_ok_and(|flags| !flags.is_empty()) {
        println!("skipped: the figure is of another target or other flags of the compiler");
        return;
    }
    match own_compiler() {
        Some(own) if own.starts_with(compiler) => {}
        own => {
            println!(
                "skipped: the figure is of {compiler}, and this is {}",
                own.as_deref().unwrap_or("another compiler")
            );
            return;
        }
    }
    if count(&["--list"], None).is_none() {
        println!("skipped: valgrind is not installed, or cannot run this program");
        return;
    }
    let [less, more] = SIZES.map(|size| count(&[], Some(size)).expect("the download succeeds"));
    let by_segment = (more - less) * SEGMENT_BYTES / ((SIZES[1] - SIZES[0]) * 1_000_000);
    println!("{by_segment} instructions by segment, {recorded} on record");
    assert!(
        by_segment * 100 <= recorded * 105,
        "{by_segment} instructions by segment are over 5 % more than {recorded}"
    );
}

/// Version of the compiler that Cargo uses.
fn own_compiler() -> Option<String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(rustc).arg("--version").output().ok()?;
    String::from_utf8(output.stdout).ok()
}

/// Instructions of this program under valgrind, downloading `size` MB if given; `None` if it failed.
fn count(arguments: &[&str], size: Option<u64>) -> Option<u64> {
    let program = std::env::current_exe().expect("a program has a file");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).args(arguments);
    command.envs(size.map(|size| (SIZE, size.to_string())));
    let output = command.output().ok().filter(|output| output.status.success())?;
    let fault_of = String::from_utf8_lossy(&output.stderr);
    fault_of.split("Collected :").nth(1)?.split_whitespace().next()?.parse().ok()
}

/// A lossless download of `size` MB.
fn download(size: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/download.toml");
    let text = std::fs::read_to_string(&file).expect("the study of the benchmarks");
    let study = Study::parse(&text, "download.toml").unwrap_or_else(|error| panic!("{error}"));
    let settings = [format!("flow.size={size} MB"), "hosts.cwnd_clamp=27624".to_owned()];
    let settings = Overrides::new(&settings, false).expect("settings");
    let runs = study.plan(&settings, &mut |name: &str| Err(format!("{name} is not needed"))).expect("a plan");
    let result = perigee_sim::run(&runs[0], &mut |_| ControlFlow::Continue(())).expect("the run succeeds");
    assert_eq!(result.tables.flows.retransmitted_packets, [Some(0)]);
}
