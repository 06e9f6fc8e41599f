//! Runs one run of a study and prints what it carried and how long it took: the program of the benchmarks.
//!
//! `download STUDY.toml [--run INDEX] [KEY=VALUE]...`
//!
//! Settings are those of `perigee run --set`. Profiles and recordings are searched for below the working folder. Prints a line of JSON:
//! `segments` delivered in order, `sent`, `retransmitted`, `connections` of populations, `events`, `simulated_s`, and `wall_s`, the time of
//! the run alone.

#![allow(clippy::disallowed_methods, reason = "it reads a study, and measures the clock around the simulator")]

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use perigee_study::{Overrides, Study};

/// Payload of a packet of 1500 bytes with timestamps.
const SEGMENT_BYTES: u64 = 1448;

fn main() -> ExitCode {
    match carry_out() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: download STUDY.toml [--run INDEX] [KEY=VALUE]...")?;
    let (mut index, mut settings) = (0, Vec::new());
    while let Some(argument) = arguments.next() {
        if argument == "--run" {
            index = arguments.next().ok_or("--run needs the number of a run")?.parse()?;
        } else {
            settings.push(argument);
        }
    }

    let study = Study::parse(&std::fs::read_to_string(&file)?, &file)?;
    let mut load = |name: &str| std::fs::read(Path::new(name)).map_err(|e| format!("{name}: {e}"));
    let runs = study.plan(&Overrides::new(&settings, false)?, &mut load)?;
    let run = runs.get(index).ok_or_else(|| format!("the study has {} runs, and no number {index}", runs.len()))?;

    let started = std::time::Instant::now();
    let result = perigee_sim::run(run, &mut |_| ControlFlow::Continue(()))?;
    let wall = started.elapsed();

    let flows = &result.tables.flows;
    let received: u64 = flows.received_bytes.iter().sum();
    let sent: u64 = flows.sent_packets.iter().flatten().sum();
    let retransmitted: u64 = flows.retransmitted_packets.iter().flatten().sum();
    let connections: u64 = result.tables.responses.transactions.iter().sum();
    let simulated = flows.start_s.iter().zip(&flows.duration_s).map(|(start, long)| start + long).fold(0.0, f64::max);
    println!(
        "{{\"segments\": {}, \"sent\": {sent}, \"retransmitted\": {retransmitted}, \
         \"connections\": {connections}, \"events\": {}, \"simulated_s\": {simulated:.3}, \"wall_s\": {:.6}}}",
        received.div_ceil(SEGMENT_BYTES),
        result.events,
        wall.as_secs_f64()
    );
    if flows.completed.iter().all(|completed| *completed) {
        Ok(())
    } else {
        Err("a flow did not complete before the study's time limit".into())
    }
}
