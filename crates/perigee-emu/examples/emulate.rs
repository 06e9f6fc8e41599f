//! Carries out one run of a study on the real kernel and prints how well: the program of the benchmarks.
//!
//! `emulate STUDY.toml [--run INDEX] [KEY=VALUE]...`, as root.
//!
//! Settings are those of `perigee run --set`; captures that they ask for go to the working folder. Prints a line of JSON:
//! `received_bytes`, `duration_s` and `goodput_mbps` of the first flow; `cpu_s`, the CPU time of this process, which does the
//! driver's work and, in its system calls, that of both TCPs; of the link that carries the data the packets `released`,
//! `late_p50_us`, `late_p99_us` and `late_max_us`, and the `rate_mbps` that arrived behind it, of packets of 1500 bytes; and how
//! many packets and events are `missing` of captures and logs.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use perigee_emu::CaptureFiles;
use perigee_study::{Overrides, Study};
use rustix::time::{clock_gettime, ClockId};

const PACKET_BYTES: f64 = 1500.0;
/// Payload of such a packet, with timestamps.
const SEGMENT_BYTES: f64 = 1448.0;

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
    let file = arguments.next().ok_or("usage: emulate STUDY.toml [--run INDEX] [KEY=VALUE]...")?;
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

    perigee_emu::check(run)?;
    let before = cpu_s();
    let captures = CaptureFiles { folder: Path::new("."), prefix: "emulate-" };
    let (tables, _) = perigee_emu::run(run, &captures, &mut |_| ControlFlow::Continue(()))?;
    let cpu = cpu_s() - before;

    let (flows, releases) = (&tables.flows, &tables.releases);
    let busiest = (0..releases.link.len()).max_by_key(|way| releases.released_packets[*way]).ok_or("no links")?;
    let way = run.scenario.flows[0].forward.first().map_or(busiest, |way| *way as usize);
    // While the link's queue never runs dry, what arrives behind it says at which rate packets really left it. The first
    // quarter is the flow's start, and the last row is cut off by its end.
    let goodput = &tables.series.goodput_mbps;
    let steady = &goodput[goodput.len() / 4..goodput.len().saturating_sub(1).max(goodput.len() / 4)];
    let rate = steady.iter().sum::<f64>() / steady.len() as f64 * PACKET_BYTES / SEGMENT_BYTES;
    println!(
        "{{\"received_bytes\": {}, \"duration_s\": {:.3}, \"goodput_mbps\": {:.2}, \"cpu_s\": {cpu:.3}, \"released\": {}, \
         \"late_p50_us\": {:.1}, \"late_p99_us\": {:.1}, \"late_max_us\": {:.1}, \"rate_mbps\": {:.3}, \
         \"missing\": {}}}",
        flows.received_bytes[0],
        flows.duration_s[0],
        flows.goodput_mbps[0].unwrap_or_default(),
        releases.released_packets[way],
        releases.late_p50_us[way],
        releases.late_p99_us[way],
        releases.late_max_us[way],
        rate,
        tables.gaps.missing.iter().sum::<u64>(),
    );
    Ok(())
}

/// CPU time of this process, in the kernel and outside.
fn cpu_s() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9
}
