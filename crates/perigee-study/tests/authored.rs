//! Authors' algorithms: a study names their file, and the caller of the plan provides them.

use std::collections::BTreeSet;

use crate::common::{load, small_with, SMALL};
use perigee_cc::Algorithm;
use perigee_study::{plan_json, Outside, Overrides, Place, Run, Study, Traffic, Unusable};

/// The files of the small study, and `mycc.c` wherever it is looked for.
#[derive(Default)]
struct Desk {
    asked: BTreeSet<(String, bool)>,
    count: usize,
}

impl Outside for Desk {
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String> {
        load(name)
    }

    fn algorithm(&mut self, path: &str, place: Place) -> Result<&'static Algorithm, Unusable> {
        self.count += 1;
        self.asked.insert((path.to_owned(), place == Place::Study));
        if path.ends_with("mycc.c") {
            return Ok(perigee_cc::find("hybla").expect("hybla is built in"));
        }
        Err(Unusable { message: "does not compile".into(), fix: "correct it:\na.c:3: what?".into() })
    }
}

fn plan(text: &str, settings: &[&str], desk: &mut Desk) -> Result<Vec<Run>, String> {
    let overrides = Overrides::new(settings, false).map_err(|error| error.to_string())?;
    let study = Study::parse(text, "s.toml").map_err(|error| error.to_string())?;
    study.plan(&overrides, desk).map_err(|error| error.to_string())
}

#[test]
fn a_file_stands_where_a_name_does() {
    let text = small_with("[\"reno\", \"cubic\"]", "[\"./mycc.c\", { name = \"mycc.c\", rtt0 = \"50 ms\" }]");
    let mut desk = Desk::default();
    let runs = plan(&text, &["link.air.down.rate=1 Mbit/s"], &mut desk).unwrap();
    let chosen: Vec<(&str, u64)> = runs[..2]
        .iter()
        .map(|run| match &run.scenario.flows[0].traffic {
            Traffic::Tcp { tcp, .. } => (tcp.cc.algorithm().name(), tcp.cc.values()[0]),
            Traffic::Population { .. } | Traffic::Quic { .. } | Traffic::Datagrams(_) => {
                panic!("a download is over TCP")
            }
        })
        .collect();
    assert_eq!(chosen, [("hybla", 25_000), ("hybla", 50_000)]);
    assert!(plan_json(&runs).contains("./mycc.c"), "the point says what was written");
    assert_eq!(desk.asked, BTreeSet::from([("./mycc.c".into(), true), ("mycc.c".into(), true)]));
}

#[test]
fn a_path_of_a_setting_is_known_as_one() {
    let mut desk = Desk::default();
    plan(SMALL, &["flows.download.cc=../mycc.c", "flows.download.cc.rtt0=30 ms"], &mut desk).unwrap();
    assert_eq!(desk.asked, BTreeSet::from([("../mycc.c".into(), false)]));
}

#[test]
fn a_file_that_is_none_is_refused_where_it_is_named() {
    let text = small_with("cc = \"reno\"", "cc = \"./your.c\"").replace("[\"reno\", \"cubic\"]", "[\"./your.c\"]");
    let error = plan(&text, &[], &mut Desk::default()).unwrap_err();
    assert_eq!(error, "s.toml:51: `flows.cc`: `./your.c` does not compile; correct it:\\na.c:3: what?");
    let error = plan(SMALL, &["flows.download.cc=your.c"], &mut Desk::default()).unwrap_err();
    assert!(error.starts_with("--set flows.download.cc=your.c: `flows.cc`: `your.c` does not compile; "), "{error}");
}

#[test]
fn a_parameter_that_a_file_does_not_have_is_refused() {
    let text = small_with("[\"reno\", \"cubic\"]", "[{ name = \"./mycc.c\", rtt1 = \"50 ms\" }]");
    let error = plan(&text, &[], &mut Desk::default()).unwrap_err();
    assert_eq!(error, "s.toml:51: `flows.cc`: `hybla` has no parameter `rtt1`; did you mean `rtt0`?");
}

#[test]
fn a_program_without_a_compiler_says_so() {
    let error = crate::common::error(SMALL, &["flows.download.cc=./mycc.c"]);
    assert_eq!(
        error,
        "--set flows.download.cc=./mycc.c: `flows.cc`: `./mycc.c` is a file, and this program has no compiler for it; \
         name one of those that are built in"
    );
}

/// A study of 8,000 points: three keys of twenty values, one of them an author's algorithm.
fn many() -> String {
    let list = |value: &dyn Fn(u32) -> String| (1..=20).map(value).collect::<Vec<_>>().join(", ");
    let ccs = list(&|n| format!("{{ name = \"./mycc.c\", rtt0 = \"{n} ms\" }}"));
    let small = small_with("[\"reno\", \"cubic\"]", &format!("[{ccs}]"));
    let small = small.replace(
        "[\"10 Mbit/s\", \"20 Mbit/s\", \"30 Mbit/s\"]",
        &format!("[{}]", list(&|n| format!("\"{n} Mbit/s\""))),
    );
    small.replace("[vary]", &format!("[vary]\n\"links.wire.loss\" = [{}]", list(&|n| format!("\"{n} %\""))))
}

#[test]
fn a_check_reads_each_value_of_many_points_once_and_a_run_itself_only() {
    let study = Study::parse(&many(), "s.toml").unwrap();
    let (mut layout, mut desk) = (study.layout(&Overrides::default()).unwrap(), Desk::default());
    assert_eq!((layout.runs(), desk.count), (16_000, 0));
    layout.check(&mut desk).unwrap();
    assert_eq!(desk.count, 1 + 3 * 19);
    let run = layout.run(15_999, &mut desk).unwrap();
    assert_eq!(desk.count, 1 + 3 * 19 + 1);
    assert_eq!((run.index, run.round), (15_999, 1));
    assert_eq!(layout.point(15_999), (1, run.scenario.point.clone()));
    assert!(run.scenario.point.contains("20 ms"), "the last value of all: {}", run.scenario.point);
}

#[test]
fn a_run_of_a_layout_is_that_of_the_plan() {
    let study = Study::parse(SMALL, "s.toml").unwrap();
    let overrides = Overrides::new(&["independent=[\"flows.download.cc\"]"], false).unwrap();
    let (mut layout, mut desk) = (study.layout(&overrides).unwrap(), Desk::default());
    let plan = study.plan(&overrides, &mut desk).unwrap();
    assert_eq!((layout.runs() as usize, layout.rounds()), (plan.len(), 2));
    for run in &plan {
        let alone = layout.run(run.index, &mut desk).unwrap();
        assert_eq!((alone.round, alone.seed), (run.round, run.seed));
        assert_eq!(alone.scenario.fingerprint, run.scenario.fingerprint);
        assert_eq!(layout.point(run.index), (run.round, run.scenario.point.clone()));
    }
}

#[test]
fn a_wrong_value_among_many_points_is_found_wherever_it_stands() {
    for wrong in ["\"13 %\"", "\"13 Mbit/s\"", "\"13 ms\""] {
        let text = many().replace(wrong, "\"13 cows\"");
        let checked = Study::parse(&text, "s.toml")
            .and_then(|study| study.layout(&Overrides::default())?.check(&mut Desk::default()));
        let error = checked.unwrap_err().to_string();
        assert!(error.contains("13 cows"), "{wrong}: {error}");
    }
}
