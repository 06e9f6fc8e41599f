//! Analyses captures and prints how long it took: the program of the benchmark.
//!
//! `speed FILE...` prints a line of JSON: `packets`, `connections`, `wall_s`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use perigee_analyze::{analyze, Options, Part, Source};

#[allow(clippy::disallowed_methods, reason = "measuring wall clock is what this program is for")]
fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let sources: Vec<_> = files
        .iter()
        .map(|path| Source { name: path.display().to_string(), parts: vec![Part::File(path.clone())] })
        .collect();
    let started = std::time::Instant::now();
    match analyze(&sources, "speed", &Options::default(), &mut |_| ControlFlow::Continue(())) {
        Ok(analyses) => {
            let packets: u64 = analyses.iter().map(|analysis| analysis.counts.frames).sum();
            let connections: u64 = analyses.iter().map(|analysis| analysis.connections).sum();
            let wall = started.elapsed().as_secs_f64();
            println!("{{\"packets\": {packets}, \"connections\": {connections}, \"wall_s\": {wall:.6}}}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
