//! Every algorithm makes the same decisions natively and as BPF.
//!
//! Flows run in the simulator over paths that bring out what algorithms do: slow start, overflow, random loss, outages
//! with timeouts and undo, idle times, congestion marks. At each call of a callback the very object that a kernel would load is executed
//! by an interpreter on a copy of the socket. Every field that an algorithm may write, its state, its storage, its
//! random numbers and its answer must then be the same, at each of some hundred thousand calls.
//!
//! What this leaves to the kernel: its relocation of fields, its verifier, and its own `tcp_slow_start()` and kin, which
//! [`host`] stands in for.

mod host;
mod layout;
mod machine;
mod program;
mod twin;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use layout::Layout;
use perigee_cc::{algorithms, find, Algorithm, Selected};
use perigee_cc_build::{kernel_object, BuildError};
use perigee_study::{Overrides, Study, Traffic};

/// A name, the links in the direction of the data, and the flow.
const PATHS: [(&str, &str, &str); 5] = [
    ("geo", r#"rate = "20 Mbit/s", delay = "300 ms", queue = "800 kB""#, r#"size = "40 MB""#),
    ("lossy", r#"rate = "20 Mbit/s", delay = "20 ms", queue = "150 kB", loss = "1 %""#, r#"size = "10 MB""#),
    (
        "outages",
        r#"rate = "10 Mbit/s", delay = "20 ms", queue = "100 kB", loss = { kind = "outages", gap = "5 s", length = "1.5 s" }"#,
        r#"size = "20 MB""#,
    ),
    (
        "idle",
        r#"rate = "5 Mbit/s", delay = "50 ms", queue = "60 kB""#,
        "kind = \"request\"\nrequest = \"200 B\"\nresponse = \"500 kB\"\nthink = \"3 s\"\nrepeat = 8",
    ),
    (
        "marks",
        r#"rate = "20 Mbit/s", delay = "20 ms", queue = { bytes = "150 kB", aqm = { kind = "codel", ce_threshold = "5 ms" } }"#,
        "size = \"10 MB\"\n[hosts]\necn = true",
    ),
];
/// The least number of calls on any path, below which the comparison says nothing.
const FEWEST_CALLS: u64 = 500;

#[test]
fn every_algorithm_decides_alike_natively_and_as_bpf() {
    every_algorithm_decides_alike(1);
}

#[test]
#[ignore = "long: make torture"]
fn every_algorithm_decides_alike_with_any_parameters() {
    every_algorithm_decides_alike(usize::MAX);
}

/// Compares with this many choices of an algorithm's parameters at most, the defaults first.
fn every_algorithm_decides_alike(most: usize) {
    let Some(layout) = layout() else { return };
    let mut wrong = Vec::new();
    for algorithm in algorithms() {
        let object = object(algorithm.name());
        for values in choices(algorithm).into_iter().take(most) {
            for (name, link, flow) in PATHS {
                let seen = compare(algorithm, &values, &values, &object, layout, &study(link, flow));
                let what = format!("{} {:?} on {name}", algorithm.name(), &values[..algorithm.params().len()]);
                println!("{what}: {} calls", seen.calls);
                assert!(seen.calls > FEWEST_CALLS, "{what}: only {} calls", seen.calls);
                if algorithm.needs_ecn() && name == "marks" {
                    assert!(seen.early_acks > 0, "{what}: the state of the marks never changed while an ACK waited");
                }
                wrong.extend(seen.difference.map(|difference| format!("{what}: {difference}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_object_that_decides_otherwise_is_noticed() {
    let Some(layout) = layout() else { return };
    let (_, link, flow) = PATHS[0];
    let hybla = find("hybla").expect("hybla");
    let native = *Selected::with_defaults(hybla).values();
    let mut other = native;
    other[0] += 5000;
    let seen = compare(hybla, &native, &other, &object("hybla"), layout, &study(link, flow));
    assert!(seen.difference.is_some_and(|text| text.contains("snd_cwnd: native")), "a reference 5 ms longer");
    let cubic = *Selected::with_defaults(find("cubic").expect("cubic")).values();
    let seen = compare(find("cubic").expect("cubic"), &cubic, &[], &object("reno"), layout, &study(link, flow));
    assert!(seen.difference.is_some(), "reno in cubic's place");
}

/// Values of the parameters to compare with: the defaults, all switches turned, each name of a choice, and the ends of each range.
fn choices(algorithm: &'static Algorithm) -> Vec<Vec<u64>> {
    let defaults = Selected::with_defaults(algorithm).values().to_vec();
    let mut choices = vec![defaults.clone()];
    let mut turned = defaults.clone();
    for (value, param) in turned.iter_mut().zip(algorithm.params()) {
        if param.unit == "switch" {
            *value ^= 1;
        }
    }
    if turned != defaults {
        choices.push(turned);
    }
    for (at, param) in algorithm.params().iter().enumerate().filter(|(_, p)| p.unit.contains('|')) {
        for value in (param.min..=param.max).filter(|value| *value != param.default) {
            let mut chosen = defaults.clone();
            chosen[at] = value;
            choices.push(chosen.clone());
            // State saved by an earlier connection over the satellite, and over shorter paths.
            for saved in [[1000, 320_000], [1000, 50_000]] {
                if let Some(window) = algorithm.params().iter().position(|p| p.name == "saved_window") {
                    chosen[window..window + 2].copy_from_slice(&saved);
                    choices.push(chosen.clone());
                }
            }
        }
    }
    if !algorithm.params().is_empty() {
        let end = |pick: fn(&perigee_cc::Param) -> u64| {
            let mut values = defaults.clone();
            for (value, param) in
                values.iter_mut().zip(algorithm.params()).filter(|(_, p)| p.unit != "switch" && !p.unit.contains('|'))
            {
                // Between the default and the end: a window of one packet makes no traffic to compare.
                *value = u64::midpoint(*value, pick(param));
            }
            values
        };
        choices.extend([end(|param| param.min), end(|param| param.max)]);
    }
    choices
}

/// Runs a study with an algorithm and its twin.
fn compare(
    algorithm: &'static Algorithm,
    native: &[u64],
    bpf: &[u64],
    object: &[u8],
    layout: &'static Layout,
    study: &str,
) -> twin::Seen {
    let paired = twin::pair(algorithm, bpf, object, layout);
    let study = Study::parse(study, "decisions.toml").unwrap_or_else(|error| panic!("{error}"));
    let mut none = |file: &str| Err(format!("{file} is not needed here"));
    let mut runs = study.plan(&Overrides::default(), &mut none).unwrap_or_else(|error| panic!("{error}"));
    let scenario = Arc::get_mut(&mut runs[0].scenario).expect("the only run");
    let Traffic::Tcp { tcp, .. } = &mut scenario.flows[0].traffic else { panic!("a TCP flow") };
    tcp.cc = Selected::with_values(paired, native);
    perigee_sim::run(&runs[0], &mut |_| ControlFlow::Continue(())).expect("a run that ends");
    twin::seen()
}

fn study(link: &str, flow: &str) -> String {
    format!(
        "name = \"decisions\"\nnodes = [\"server\", \"client\"]\ntime_limit = \"300 s\"\n\
         [[links]]\nname = \"path\"\nbetween = [\"server\", \"client\"]\n\
         down = {{ {link} }}\nup = {{ rate = \"100 Mbit/s\", delay = \"20 ms\" }}\n\
         [[flows]]\nname = \"flow\"\nfrom = \"server\"\nto = \"client\"\n{flow}\n"
    )
}

/// The object of an algorithm of this name.
fn object(name: &str) -> Vec<u8> {
    compile(&sources().join(format!("{name}.c")), name).unwrap_or_else(|error| panic!("{error}"))
}

/// The layout of sockets in objects; none, having said why, where this machine makes no objects.
fn layout() -> Option<&'static Layout> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let probe = folder.join("probe.c");
    fs::write(&probe, "#include \"tcp.h\"\n").expect("a writable folder");
    match compile(&probe, "probe") {
        Ok(_) => {}
        Err(error @ BuildError::Compile { .. }) => panic!("{error}"),
        Err(missing) => {
            println!("skipped: {missing}");
            return None;
        }
    }
    let ask = |text: &str| {
        let source = folder.join("layout.c");
        fs::write(&source, text).expect("a writable folder");
        compile(&source, "layout").unwrap_or_else(|error| panic!("{error}"))
    };
    Some(Box::leak(Box::new(Layout::ask(ask))))
}

fn compile(source: &Path, name: &str) -> Result<Vec<u8>, BuildError> {
    // The tests of this file run side by side.
    let thread = std::thread::current().name().unwrap_or_default().to_owned();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{thread}.{name}.o"));
    let warnings = kernel_object(source, &sources(), &out)?;
    assert_eq!(warnings, "", "{name}");
    Ok(fs::read(&out).expect("the object"))
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../algorithms")
}
