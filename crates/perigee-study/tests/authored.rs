//! Authors' algorithms: a study names their file, and the caller of the plan provides them.

mod common;

use std::collections::BTreeSet;

use common::{load, small_with, SMALL};
use perigee_cc::Algorithm;
use perigee_study::{plan_json, Outside, Overrides, Place, Run, Study, Traffic, Unusable};

/// The files of the small study, and `mycc.c` wherever it is looked for.
#[derive(Default)]
struct Desk {
    asked: BTreeSet<(String, bool)>,
}

impl Outside for Desk {
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String> {
        load(name)
    }

    fn algorithm(&mut self, path: &str, place: Place) -> Result<&'static Algorithm, Unusable> {
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
            Traffic::Population { .. } | Traffic::Datagrams(_) => panic!("a download is over TCP"),
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
    assert_eq!(error, "s.toml:51: `flows.cc`: `./your.c` does not compile; correct it:\na.c:3: what?");
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
    let error = common::error(SMALL, &["flows.download.cc=./mycc.c"]);
    assert_eq!(
        error,
        "--set flows.download.cc=./mycc.c: `flows.cc`: `./mycc.c` is a file, and this program has no compiler for it; \
         name one of those that are built in"
    );
}
