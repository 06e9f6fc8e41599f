//! Compares the simulator with traces of Linux 6.1 TCP on known paths.
//!
//! The traces are in a folder of recorded data (`PERIGEE_SHARED`, by default `../shared` next to the checkout); without it, the test says
//! so and is skipped. It prints the table of all cells, which `docs/models/tcp.md` contains.

#![allow(clippy::disallowed_methods, reason = "recordings are files, where the environment says")]

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;

use perigee_study::{Overrides, Study};

/// A recorded path: its name, the router's link to the receiver, the return path, the loss before the router, the length of the recording,
/// and the number of seeds to compare with.
struct Scenario {
    name: &'static str,
    capacity_mbps: f64,
    bottleneck: &'static str,
    round_trip: &'static str,
    loss: &'static str,
    seconds: u32,
    seeds: u32,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "geo10",
        capacity_mbps: 10.0,
        bottleneck: r#"rate = "10 Mbit/s", burst = "6200 B", queue = "375000 B""#,
        round_trip: "600 ms",
        loss: r#""0 %""#,
        seconds: 120,
        seeds: 1,
    },
    Scenario {
        name: "geo1",
        capacity_mbps: 1.144,
        bottleneck: r#"rate = "1.144 Mbit/s", burst = "3100 B", queue = "1000000 B""#,
        round_trip: "650 ms",
        loss: r#""0 %""#,
        seconds: 180,
        seeds: 1,
    },
    // The recorded loss hit what the host passed down: two segments at a time at this rate. See docs/models/tcp.md.
    Scenario {
        name: "leo20lossy",
        capacity_mbps: 20.0,
        bottleneck: r#"rate = "20 Mbit/s", burst = "6200 B", queue = "150000 B""#,
        round_trip: "40 ms",
        loss: r#"{ kind = "trains", loss = "0.1 %", packets = 2 }"#,
        seconds: 60,
        seeds: 20,
    },
];

/// Each algorithm's name here and in the kernel.
const ALGORITHMS: [(&str, &str); 9] = [
    ("reno", "reno"),
    ("cubic", "cubic"),
    ("bbr", "bbr"),
    ("hybla", "hybla"),
    ("highspeed", "highspeed"),
    ("htcp", "htcp"),
    ("bic", "bic"),
    ("vegas", "vegas"),
    ("westwood_plus", "westwood"),
];

/// Known misses and their reasons; see `docs/models/tcp.md`.
const KNOWN_MISSES: [(&str, &str, &str); 2] = [
    ("leo20lossy", "highspeed", "in the recording a random loss ended slow start before it overran the queue"),
    ("leo20lossy", "bic", "the recording lost packets more often than most seeds do, which keeps its queue shorter"),
];

#[test]
#[ignore = "long: make torture"]
fn every_algorithm_behaves_like_the_kernel_on_every_recorded_path() {
    let Some(folder) = recorded_data() else {
        println!("skipped: no folder `kernel-truth` in PERIGEE_SHARED or ../shared beside the checkout");
        return;
    };
    let mut table = String::from(
        "| path | algorithm | throughput Mbit/s: kernel | here | error | to 90 % s: kernel | here | error \
         | mean RTT ms: kernel | here | error | retransmitted %: kernel | here | factor | within |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let (mut surprises, mut notes) = (Vec::new(), String::new());
    for scenario in &SCENARIOS {
        for (name, kernel_name) in ALGORITHMS {
            let file = folder.join(format!("{}_{kernel_name}.csv", scenario.name));
            let truth = Trace::read(&std::fs::read_to_string(&file).expect("a readable trace"));
            let runs: Vec<Trace> = simulate(scenario, name, "").iter().map(|run| align(&truth, run)).collect();
            let cell = Cell::compare(scenario, &truth, &runs);
            cell.write(&mut table, scenario.name, name);
            let known = KNOWN_MISSES.iter().find(|(path, algorithm, _)| (*path, *algorithm) == (scenario.name, name));
            if known.is_some() == cell.misses().is_empty() {
                surprises.push(format!("{} {name}: misses {:?}, expected {known:?}", scenario.name, cell.misses()));
            }
            if let Some((path, algorithm, cause)) = known {
                let _ = writeln!(notes, "\nKnown miss: {path} {algorithm}: {cause}. {}", spreads(&truth, &runs));
            }
        }
    }
    table.push_str(&notes);
    println!("{table}");
    assert!(surprises.is_empty(), "{surprises:#?}\n{table}");
}

#[test]
fn the_first_round_trips_have_the_kernels_acks() {
    let Some(folder) = recorded_data() else {
        println!("skipped: no folder `kernel-truth` in PERIGEE_SHARED or ../shared beside the checkout");
        return;
    };
    // The smoothed RTT includes every ACK, delayed ones as longer round trips. Four rounds of slow start.
    let scenario = &SCENARIOS[1];
    let truth = Trace::read(&std::fs::read_to_string(folder.join("geo1_reno.csv")).expect("a readable trace"));
    let run = align(&truth, &simulate(scenario, "reno", "")[0]);
    for sample in 0..=5 {
        assert_eq!(run.acked_bytes[sample].to_bits(), truth.acked_bytes[sample].to_bits(), "sample {sample}");
        let (here, kernel) = (run.srtt_ms[sample], truth.srtt_ms[sample]);
        assert!((here - kernel).abs() < 0.01, "sample {sample}: {here} ms, recorded {kernel} ms");
    }
}

#[test]
fn with_the_tick_of_the_recorded_kernel_the_throughput_of_westwood_plus_agrees_better() {
    let Some(folder) = recorded_data() else {
        println!("skipped: no folder `kernel-truth` in PERIGEE_SHARED or ../shared beside the checkout");
        return;
    };
    let scenario = &SCENARIOS[0];
    let truth = Trace::read(&std::fs::read_to_string(folder.join("geo10_westwood.csv")).expect("a readable trace"));
    let error = |hosts: &str| {
        let run = align(&truth, &simulate(scenario, "westwood_plus", hosts)[0]);
        (run.throughput_mbps() / truth.throughput_mbps() - 1.0).abs()
    };
    let (without, with) = (error(""), error("tick = \"10 ms\""));
    println!("{:.2} % without, {:.2} % with", without * 100.0, with * 100.0);
    assert!(with < 0.015 && with < without / 2.0, "{without} without, {with} with");
}

#[test]
fn with_trains_as_linux_has_them_two_figures_agree_better_with_the_kernel() {
    type Figure = (&'static str, &'static str, &'static str, fn(&Trace) -> f64);
    let Some(folder) = recorded_data() else {
        println!("skipped: no folder `kernel-truth` in PERIGEE_SHARED or ../shared beside the checkout");
        return;
    };
    let scenario = &SCENARIOS[0];
    let figures: [Figure; 2] = [
        ("westwood_plus", "westwood", "segmentation_offload = false", Trace::mean_rtt_ms),
        ("hybla", "hybla", "short_train_waits = false", Trace::retransmitted_share),
    ];
    for (name, kernel_name, other, figure) in figures {
        let file = folder.join(format!("{}_{kernel_name}.csv", scenario.name));
        let truth = Trace::read(&std::fs::read_to_string(&file).expect("a readable trace"));
        let error = |hosts: &str| {
            let run = align(&truth, &simulate(scenario, name, hosts)[0]);
            (figure(&run) / figure(&truth) - 1.0).abs()
        };
        let (without, with) = (error(other), error(""));
        println!("{name}: {:.2} % without, {:.2} % with", without * 100.0, with * 100.0);
        assert!(with < 0.005 && with < without / 2.0, "{name}: {without} without, {with} with");
    }
}

/// Figures that vary between draws: the recording's, and their range over the seeds.
fn spreads(truth: &Trace, runs: &[Trace]) -> String {
    type Figure<'a> = (&'a str, &'a dyn Fn(&Trace) -> f64);
    let figures: [Figure<'_>; 3] = [
        ("mean RTT ms", &Trace::mean_rtt_ms),
        ("retransmitted %", &|trace| trace.retransmitted_share() * 100.0),
        ("half seconds with retransmissions", &Trace::lossy_steps),
    ];
    let spread = |(name, figure): Figure<'_>| {
        let mut here: Vec<f64> = runs.iter().map(figure).collect();
        here.sort_by(f64::total_cmp);
        let mean = here.iter().sum::<f64>() / here.len() as f64;
        let (least, most) = (here[0], here[here.len() - 1]);
        format!("{name}: kernel {:.2}, here {least:.2} to {most:.2}, mean {mean:.2}", figure(truth))
    };
    figures.map(spread).join("; ") + "."
}

/// Samples of a sender, half a second apart.
#[derive(Clone, Default)]
struct Trace {
    acked_bytes: Vec<f64>,
    srtt_ms: Vec<f64>,
    /// Retransmitted packets so far.
    retransmitted: Vec<f64>,
}

impl Trace {
    fn read(text: &str) -> Self {
        let mut trace = Self::default();
        for line in text.lines().skip(1) {
            let field = |at: usize| line.split(',').nth(at).and_then(|f| f.parse::<f64>().ok()).expect("a number");
            trace.acked_bytes.push(field(1));
            trace.srtt_ms.push(field(4));
            trace.retransmitted.push(field(6));
        }
        trace
    }

    fn seconds(&self) -> f64 {
        (self.acked_bytes.len() - 1) as f64 * STEP_S
    }

    fn throughput_mbps(&self) -> f64 {
        let bytes = self.acked_bytes[self.acked_bytes.len() - 1] - self.acked_bytes[0];
        bytes * 8.0 / self.seconds() / 1e6
    }

    /// End of the first second in which 90 % of the capacity was acknowledged.
    fn to_full_s(&self, capacity_mbps: f64) -> Option<f64> {
        // 1448 of the 1514 bytes of a frame are payload.
        let enough = 0.9 * capacity_mbps * 1e6 / 8.0 * 1448.0 / 1514.0;
        let full = self.acked_bytes.windows(3).position(|w| w[2] - w[0] >= enough)?;
        Some((full + 2) as f64 * STEP_S)
    }

    fn mean_rtt_ms(&self) -> f64 {
        self.srtt_ms.iter().sum::<f64>() / self.srtt_ms.len() as f64
    }

    fn retransmitted_share(&self) -> f64 {
        let last = self.acked_bytes.len() - 1;
        let (delivered, retransmitted) = (self.acked_bytes[last] / 1448.0, self.retransmitted[last]);
        retransmitted / (delivered + retransmitted)
    }

    fn lossy_steps(&self) -> f64 {
        self.retransmitted.windows(2).filter(|w| w[1] > w[0]).count() as f64
    }
}

/// The simulation's samples, every hundredth of a second, for each seed.
fn simulate(scenario: &Scenario, algorithm: &str, hosts: &str) -> Vec<Trace> {
    let text = format!(
        r#"
name = "kernel-truth"
rounds = {seeds}
nodes = ["sender", "router", "receiver"]
time_limit = "{limit} s"
[measure]
series = "10 ms"
startup = "1 s"
[hosts]
like = "linux-6.1"
rmem = ["4096 B", "131072 B", "60 MB"]
wmem = ["4096 B", "131072 B", "60 MB"]
{hosts}
[[links]]
name = "access"
between = ["sender", "router"]
down = {{ rate = "unlimited", delay = "0 ms", loss = {loss} }}
up = {{ rate = "unlimited", delay = "0 ms" }}
[[links]]
name = "bottleneck"
between = ["router", "receiver"]
down = {{ {bottleneck}, overhead = "14 B", delay = "0 ms" }}
up = {{ rate = "unlimited", delay = "{round_trip}" }}
[[flows]]
name = "flow"
from = "sender"
to = "receiver"
duration = "{seconds} s"
opened_by = "sender"
cc = "{algorithm}"
"#,
        seeds = scenario.seeds,
        limit = scenario.seconds + 30,
        seconds = scenario.seconds + 5,
        loss = scenario.loss,
        bottleneck = scenario.bottleneck,
        round_trip = scenario.round_trip,
    );
    let study = Study::parse(&text, "kernel-truth").unwrap_or_else(|error| panic!("{error}"));
    let mut no_files = |name: &str| Err(format!("{name} is not there"));
    let runs = study.plan(&Overrides::default(), &mut no_files).unwrap_or_else(|error| panic!("{error}"));
    runs.iter()
        .map(|run| {
            let result = perigee_sim::run(run, &mut |_| ControlFlow::Continue(())).expect("the run succeeds");
            let series = &result.tables.series;
            let start = series.srtt_ms.iter().position(Option::is_some).expect("an established connection");
            let (mut trace, mut retransmitted) = (Trace::default(), 0);
            for at in start..series.t_s.len() {
                retransmitted += series.retransmitted_packets[at].expect("counted");
                trace.acked_bytes.push(series.acked_bytes[at] as f64);
                trace.srtt_ms.push(series.srtt_ms[at].unwrap_or_default());
                trace.retransmitted.push(retransmitted as f64);
            }
            trace
        })
        .collect()
}

/// Kernel and simulation, figure by figure.
struct Cell {
    throughput: (f64, f64),
    to_full: (Option<f64>, Option<f64>),
    /// Shortest and longest time over the seeds.
    to_full_spread: (f64, f64),
    rtt: (f64, f64),
    retransmitted: (f64, f64),
}

impl Cell {
    /// `runs` must be aligned with the recording.
    fn compare(scenario: &Scenario, truth: &Trace, runs: &[Trace]) -> Self {
        let mean = |figure: &dyn Fn(&Trace) -> f64| runs.iter().map(figure).sum::<f64>() / runs.len() as f64;
        let full = |trace: &Trace| trace.to_full_s(scenario.capacity_mbps);
        let reached: Vec<f64> = runs.iter().filter_map(full).collect();
        let spread = reached.iter().fold((f64::MAX, f64::MIN), |(low, high), t| (low.min(*t), high.max(*t)));
        let to_full = (reached.len() == runs.len()).then(|| reached.iter().sum::<f64>() / reached.len() as f64);
        Self {
            throughput: (truth.throughput_mbps(), mean(&Trace::throughput_mbps)),
            to_full: (full(truth), to_full),
            to_full_spread: spread,
            rtt: (truth.mean_rtt_ms(), mean(&Trace::mean_rtt_ms)),
            retransmitted: (truth.retransmitted_share(), mean(&Trace::retransmitted_share)),
        }
    }

    fn misses(&self) -> Vec<&'static str> {
        let mut misses = Vec::new();
        if relative(self.throughput).abs() > 0.05 {
            misses.push("throughput");
        }
        // With random loss the recording is a single draw, so its time must lie within the range of the seeds.
        let (shortest, longest) = self.to_full_spread;
        let in_time = match self.to_full {
            (Some(kernel), Some(here)) => {
                relative((kernel, here)).abs() <= 0.1 || (shortest < longest && (shortest..=longest).contains(&kernel))
            }
            (kernel, here) => kernel.is_none() && here.is_none(),
        };
        if !in_time {
            misses.push("time to 90 %");
        }
        if relative(self.rtt).abs() > 0.05 {
            misses.push("RTT");
        }
        let (kernel, here) = self.retransmitted;
        let within_factor = here <= 1.5 * kernel && kernel <= 1.5 * here;
        if !(within_factor || (here - kernel).abs() <= 0.001) {
            misses.push("retransmissions");
        }
        misses
    }

    fn write(&self, table: &mut String, path: &str, algorithm: &str) {
        let percent = |pair| format!("{:+.1} %", relative(pair) * 100.0);
        let time = |t: Option<f64>| t.map_or("never".to_owned(), |t| format!("{t:.2}"));
        let time_error = match self.to_full {
            (Some(kernel), Some(here)) => percent((kernel, here)),
            _ => "-".to_owned(),
        };
        let (kernel_share, share) = self.retransmitted;
        let factor = if kernel_share == 0.0 { "-".to_owned() } else { format!("{:.2}", share / kernel_share) };
        let misses = self.misses();
        let verdict = if misses.is_empty() { "yes".to_owned() } else { format!("no: {}", misses.join(", ")) };
        let _ = writeln!(
            table,
            "| {path} | {algorithm} | {:.3} | {:.3} | {} | {} | {} | {time_error} | {:.1} | {:.1} | {} | {:.3} | {:.3} \
             | {factor} | {verdict} |",
            self.throughput.0,
            self.throughput.1,
            percent(self.throughput),
            time(self.to_full.0),
            time(self.to_full.1),
            self.rtt.0,
            self.rtt.1,
            percent(self.rtt),
            kernel_share * 100.0,
            share * 100.0,
        );
    }
}

fn relative((kernel, here): (f64, f64)) -> f64 {
    here / kernel - 1.0
}

/// The recording starts up to half a second after the connection. Aligns the run by the hundredth of a second that gives the least
/// difference in acknowledged bytes over the first five seconds.
fn align(truth: &Trace, run: &Trace) -> Trace {
    let sampled = |offset: usize| -> Trace {
        let samples = truth.acked_bytes.len();
        let at = |values: &[f64], k: usize| values[(offset + k * SAMPLES_PER_STEP).min(values.len() - 1)];
        Trace {
            acked_bytes: (0..samples).map(|k| at(&run.acked_bytes, k)).collect(),
            srtt_ms: (0..samples).map(|k| at(&run.srtt_ms, k)).collect(),
            retransmitted: (0..samples).map(|k| at(&run.retransmitted, k)).collect(),
        }
    };
    let difference = |offset: &usize| {
        let trace = sampled(*offset);
        let first = trace.acked_bytes.iter().zip(&truth.acked_bytes).take(10);
        first.map(|(here, kernel)| (here - kernel).abs()).sum::<f64>()
    };
    let best = (0..=SAMPLES_PER_STEP).min_by(|a, b| difference(a).total_cmp(&difference(b)));
    sampled(best.unwrap_or_default())
}

fn recorded_data() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var("PERIGEE_SHARED").map_or(beside, PathBuf::from);
    let folder = shared.join("kernel-truth");
    folder.is_dir().then_some(folder)
}

const STEP_S: f64 = 0.5;
const SAMPLES_PER_STEP: usize = 50;
