//! The reduced study `claypool-2021`, and two downloads over CoDel, give the stored tables exactly.
//!
//! The first runs in cargo's test build; `tests/engines/test_golden.py` compares the same files with the release build in the
//! Python module, so both builds give the same tables, and any change of a figure shows in review. After an intended
//! change: `PERIGEE_BLESS=1 cargo test -p perigee-sim --test golden`.

#![allow(clippy::disallowed_methods, reason = "goldens are files, written anew if the environment says so")]

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use perigee_results::{Table, Tables, Values};
use perigee_study::{Overrides, Study};

#[test]
fn the_reduced_viasat_study_gives_the_tables_on_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("studies/claypool-2021/study.toml");
    let text = std::fs::read_to_string(&file).expect("the study");
    let study = Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    let settings = Overrides::new(&["rounds=1"], true).expect("a valid setting");
    let tables = tables(&study, &settings, &root);
    check("", &tables.flows);
    check("", &tables.series);
}

#[test]
fn downloads_over_codel_give_the_tables_on_file() {
    let text = std::fs::read_to_string(golden("codel.toml")).expect("the study");
    let study = Study::parse(&text, "codel.toml").unwrap_or_else(|error| panic!("{error}"));
    let tables = tables(&study, &Overrides::default(), Path::new("."));
    assert!(tables.links.dropped_aqm_packets.iter().sum::<u64>() > 0, "CoDel dropped packets");
    check("codel_", &tables.flows);
    check("codel_", &tables.links);
}

/// The tables of all runs.
fn tables(study: &Study, settings: &Overrides, root: &Path) -> Tables {
    let mut load = |name: &str| std::fs::read(root.join(name)).map_err(|error| error.to_string());
    let runs = study.plan(settings, &mut load).unwrap_or_else(|error| panic!("{error}"));
    let mut tables = Tables::default();
    for run in &runs {
        let mut result = perigee_sim::run(run, &mut |_| ControlFlow::Continue(())).expect("the run succeeds");
        tables.flows.append(&mut result.tables.flows);
        tables.series.append(&mut result.tables.series);
        tables.links.append(&mut result.tables.links);
    }
    tables
}

fn check(study: &str, table: &dyn Table) {
    let file = golden(&format!("{study}{}.csv", table.name()));
    let text = csv(table);
    if std::env::var("PERIGEE_BLESS").is_ok() {
        std::fs::write(&file, &text).expect("a writable golden file");
    }
    let expected = std::fs::read_to_string(&file).expect("a golden file");
    let difference = text.lines().zip(expected.lines()).find(|(here, there)| here != there);
    assert!(text == expected, "{} differs, first in\n{difference:#?}", table.name());
}

/// The table as text: a row per line, floats as the shortest decimal that parses to the same value, missing cells empty.
fn csv(table: &dyn Table) -> String {
    let columns: Vec<Vec<String>> = (0..table.columns().len()).map(|at| cells(table, at)).collect();
    let mut text = table.columns().iter().map(|c| c.name).collect::<Vec<_>>().join(";");
    for row in 0..table.len() {
        let cells: Vec<&str> = columns.iter().map(|column| column[row].as_str()).collect();
        let _ = write!(text, "\n{}", cells.join(";"));
    }
    text + "\n"
}

fn cells(table: &dyn Table, column: usize) -> Vec<String> {
    fn some<T: std::fmt::Debug>(cells: &[Option<T>]) -> Vec<String> {
        cells.iter().map(|c| c.as_ref().map_or(String::new(), |c| format!("{c:?}"))).collect()
    }
    match table.values(column).expect("a column") {
        Values::Text(cells) => cells.iter().map(ToString::to_string).collect(),
        Values::Bool(cells) => cells.iter().map(ToString::to_string).collect(),
        Values::U32(cells) => cells.iter().map(ToString::to_string).collect(),
        Values::U64(cells) => cells.iter().map(ToString::to_string).collect(),
        Values::F64(cells) => cells.iter().map(|c| format!("{c:?}")).collect(),
        Values::OptionText(cells) => some(cells),
        Values::OptionU32(cells) => some(cells),
        Values::OptionU64(cells) => some(cells),
        Values::OptionF64(cells) => some(cells),
    }
}

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}
