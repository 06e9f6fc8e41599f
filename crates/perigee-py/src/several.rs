//! Simulated runs one after the other, and their tables in one piece: what it costs to hand results over and to keep them is
//! paid once for many short runs.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use perigee_results::Tables;
use perigee_study::Run;

/// Carries runs out in their order until `longest` has passed: how many, and their tables.
///
/// `progress` is called with the runs done, parts of them counted, and may end it. Before a run that fails, is cancelled or has captures
/// or logs it ends too, without that run: asked for alone, the run says what is the matter. Runs that are carried plain are done alone.
pub(crate) fn simulate<'a>(
    runs: impl Iterator<Item = &'a Run>,
    longest: Duration,
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> (usize, Tables) {
    let (mut done, mut tables) = (0, Tables::default());
    let begun = now();
    let mut told = begun;
    for run in runs.take_while(|run| !run.scenario.is_plain) {
        match perigee_sim::run(run, &mut |standing| progress(done as f64 + standing.share)) {
            Ok(result) if result.captures.is_empty() && result.qlogs.is_empty() => tables.append(result.tables),
            // The caller runs this one by itself, and tells.
            Ok(_) | Err(_) => break,
        }
        done += 1;
        let now = now();
        if now - begun >= longest {
            break;
        }
        if now - told >= BETWEEN_REPORTS {
            told = now;
            if progress(done as f64).is_break() {
                break;
            }
        }
    }
    (done, tables)
}

#[allow(clippy::disallowed_methods, reason = "how long it works is a matter of the clock; what a run gives is not")]
fn now() -> Instant {
    Instant::now()
}

const BETWEEN_REPORTS: Duration = Duration::from_millis(50);
