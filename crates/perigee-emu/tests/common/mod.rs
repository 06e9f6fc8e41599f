//! Networks and helpers for the tests of studies on the real kernel.

use std::ops::ControlFlow;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use perigee_emu::{check, CaptureFiles};
use perigee_results::Tables;
use perigee_study::{Overrides, Run, Study};

/// A wire and a satellite link of 20 Mbit/s and 200 ms whose queue never overflows: the result does not depend on the order of
/// packets, and one run is enough.
pub(crate) const NETWORK: &str = r#"
name = "two-engines"
nodes = ["server", "gateway", "client"]
[measure]
series = "500 ms"
startup = "1 MB"
[[links]]
name = "wire"
between = ["server", "gateway"]
rate = "1 Gbit/s"
delay = "1 ms"
[[links]]
name = "satellite"
between = ["gateway", "client"]
rate = "20 Mbit/s"
delay = "100 ms"
queue = "10 MB"
"#;

/// The one run of a study.
pub(crate) fn plan(text: &str) -> Run {
    let study = Study::parse(text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    let mut none = |file: &str| Err(format!("{file} is not needed here"));
    study.plan(&Overrides::default(), &mut none).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

/// A download over that network.
pub(crate) fn download(flow: &str) -> Run {
    plan(&format!("{NETWORK}[[flows]]\nname = \"download\"\nfrom = \"server\"\nto = \"client\"\n{flow}\n"))
}

/// Runs in real time take turns.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this machine can emulate; prints the reason if not.
pub(crate) fn can_emulate(run: &Run) -> bool {
    match check(run) {
        Ok(()) => true,
        Err(error) => {
            println!("skipped: {error}");
            false
        }
    }
}

pub(crate) fn emulate(run: &Run) -> Result<Tables, perigee_emu::RunError> {
    Ok(perigee_emu::run(run, &no_captures(), &mut |_| ControlFlow::Continue(()))?.0)
}

/// For studies without captures.
pub(crate) fn no_captures() -> CaptureFiles<'static> {
    CaptureFiles { folder: Path::new("/nowhere"), prefix: "" }
}

pub(crate) fn simulate(run: &Run) -> Tables {
    perigee_sim::run(run, &mut |_| ControlFlow::Continue(())).expect("a simulated run").tables
}

/// How late the latest packet was released, us.
pub(crate) fn latest_us(tables: &Tables) -> f64 {
    tables.releases.late_max_us.iter().fold(0.0, |a: f64, b| a.max(*b))
}

/// Emulates and passes the tables to `check`.
///
/// A failed run is repeated, since threads that wake late change the measurement. The test fails if `check` fails in two runs
/// that released every packet within `most_us`, us, of its time, and is skipped if there are no two such runs.
pub(crate) fn assert_emulated(run: &Run, most_us: f64, check: impl Fn(&Tables)) {
    let mut failed_on_time = false;
    for _ in 0..ATTEMPTS {
        let emulated = match emulate(run) {
            Err(error) if error.is_wrong_input() => return println!("skipped: {error}"),
            done => done.unwrap_or_else(|error| panic!("{error}")),
        };
        let Err(failure) = catch_unwind(AssertUnwindSafe(|| check(&emulated))) else { return };
        let latest = latest_us(&emulated);
        println!("an assertion failed; packets were up to {latest} us late");
        if latest < most_us {
            if failed_on_time {
                resume_unwind(failure);
            }
            failed_on_time = true;
        }
    }
    println!("skipped: this machine is too busy to release packets on time");
}

/// Runs before a test is skipped.
const ATTEMPTS: u32 = 4;
