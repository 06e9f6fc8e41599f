//! The generated files are up to date, and the studies and pages of the repository are read without error.

#![allow(clippy::disallowed_methods, reason = "the generated files are compared")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use perigee_link::RateSpec;
use perigee_results::{Table, Tables};
use perigee_settings::SETTINGS;
use perigee_study::{schema, Overrides, Run, Study, Traffic};
use perigee_traffic::App;
use perigee_units::Time;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

const STALE: &str = "run `cargo run -p perigee-study --bin schema -- schema docs/reference`";

#[test]
fn the_schemas_on_file_are_those_of_the_code() {
    // Not `assert_eq`, which would print both files.
    assert!(read("schema/study.json") == schema::study_json(), "study.json is stale; {STALE}");
    assert!(read("schema/profile.json") == schema::profile_json(), "profile.json is stale; {STALE}");
    assert!(read("schema/results.json") == schema::results_json(), "results.json is stale; {STALE}");
    assert!(read("schema/results.md") == schema::results_markdown(), "results.md is stale; {STALE}");
}

#[test]
fn the_reference_has_every_key_of_every_table_once() {
    let pages = schema::PAGES.map(|name| (name, read(&format!("docs/reference/{name}"))));
    for (name, page) in &pages {
        assert!(schema::page_markdown(page).as_deref() == Some(&**page), "{name} is stale; {STALE}");
    }
    for section in schema::sections() {
        let mark = format!("<!-- keys: {section} -->");
        let found = pages.iter().map(|(_, page)| page.matches(&mark).count()).sum::<usize>();
        assert_eq!(found, 1, "tables of {section} in the reference");
    }
}

#[test]
fn the_schema_on_file_has_every_tcp_setting_of_hosts_nodes_and_flows() {
    let schema: serde_json::Value = serde_json::from_str(&read("schema/study.json")).unwrap();
    for place in
        ["/properties/hosts", "/properties/hosts/additionalProperties", "/properties/flows/items/properties/tcp"]
    {
        let keys = schema.pointer(&format!("{place}/properties")).and_then(|keys| keys.as_object()).unwrap();
        let settings: BTreeSet<_> = SETTINGS.iter().map(|setting| setting.name).chain(["like"]).collect();
        assert_eq!(keys.keys().map(String::as_str).collect::<BTreeSet<_>>(), settings, "{place}");
        for setting in SETTINGS {
            assert_eq!(keys[setting.name]["description"], setting.about, "{place}");
        }
    }
}

#[test]
fn every_study_in_the_pages_reads() {
    let mut seen = 0;
    for page in ["docs/reference/study.md", "docs/guide/first-study.md"] {
        let text = read(page);
        for block in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if block.starts_with("name = ") {
                Study::parse(block, page).unwrap_or_else(|error| panic!("{error}"));
                seen += 1;
            }
        }
    }
    assert!(seen >= 2, "{seen} studies in the pages");
    let reference = read("docs/reference/study.md");
    let first = reference.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(crate::common::plan(first, &[], false).unwrap().len(), 40);
    assert_eq!(crate::common::plan(first, &["flow.cc=cubic"], false).unwrap().len(), 20);
}

/// The plan of a study of the repository, with two recordings of a few lines.
fn plan(name: &str, settings: &[&str], reduced: bool) -> Result<Vec<Run>, String> {
    let file = format!("studies/{name}/study.toml");
    let study = Study::parse(&read(&file), &file).map_err(|error| error.to_string())?;
    let mut load = |path: &str| match path {
        "bw" => Ok(b"1\n2\n3\n5\n".to_vec()),
        "delay" => Ok(b"10\n12\n".to_vec()),
        "starlink-timeline.csv" => Err("it lies beside its profile".to_owned()),
        _ => fs::read(root().join(path)).map_err(|error| error.to_string()),
    };
    let overrides = Overrides::new(settings, reduced).map_err(|error| error.to_string())?;
    study.plan(&overrides, &mut load).map_err(|error| error.to_string())
}

#[test]
fn claypool_is_four_algorithms_in_80_interlaced_rounds() {
    let runs = plan("claypool-2021", &[], false).unwrap();
    assert_eq!(runs.len(), 320);
    let algorithm = |run: &Run| match &run.scenario.flows[0].traffic {
        Traffic::Tcp { tcp, app: App::Bulk(_) } => tcp.cc.algorithm().name(),
        _ => panic!("a download is over TCP"),
    };
    let names: Vec<&str> = runs[4..8].iter().map(algorithm).collect();
    assert_eq!(names, ["bbr", "cubic", "hybla", "vivace"]);
    assert_eq!(plan("claypool-2021", &[], true).unwrap().len(), 8);
}

#[test]
fn starlink_replay_runs_over_the_synthesised_link_and_over_a_recording() {
    let runs = plan("starlink-replay", &[], false).unwrap();
    assert_eq!(runs.len(), 100, "5 alone and 15 pairs in 5 rounds");
    assert_eq!(plan("starlink-replay", &[], true).unwrap().len(), 20);
    let link =
        |runs: &[Run]| runs[0].scenario.links.iter().find(|link| &*link.name == "starlink.down").cloned().unwrap();
    assert!(matches!(&link(&runs).spec.rate, RateSpec::Trace(steps) if steps.period().is_none()), "a timeline");
    let profile = "links.starlink.profile=starlink-replay";
    let error = plan("starlink-replay", &[profile], false).unwrap_err();
    assert!(error.contains("`links.starlink.down.rate.trace` names no recording; give it the path of one"), "{error}");
    let recorded = [profile, "links.starlink.rate.trace=bw", "links.starlink.delay.trace=delay"];
    let runs = plan("starlink-replay", &recorded, true).unwrap();
    assert!(matches!(&link(&runs).spec.rate, RateSpec::Trace(steps) if steps.period() == Some(Time::from_millis(5))));
}

#[test]
fn a_column_that_has_a_unit_ends_in_it() {
    for table in Tables::default().all() {
        for column in table.columns() {
            let ending = match column.unit {
                "s" => "_s",
                "ms" => "_ms",
                "Mbit/s" => "_mbps",
                "B" => "bytes",
                "packets" => "_packets",
                _ => "",
            };
            let named = column.name.ends_with(ending) || column.name == "sequence";
            assert!(named, "{}.{} is in {}", table.name(), column.name, column.unit);
        }
    }
}

#[test]
fn a_table_keeps_its_rows_in_columns_of_one_length() {
    let mut tables = Tables::default();
    let row = |bytes| perigee_results::MilestoneRow { run: 1, flow: "f".into(), leg: None, bytes, t_s: 0.5 };
    let mut others = tables.milestones.clone();
    tables.milestones.push(row(1));
    others.push(row(2));
    tables.milestones.append(&mut others);
    assert_eq!((tables.milestones.len(), others.len()), (2, 0));
    assert_eq!(tables.milestones.bytes, [1, 2]);
    assert!((0..4).all(|column| tables.milestones.values(column).is_some()));
    assert!(tables.milestones.values(5).is_none());
}
