//! Experiments of a study: their points, the order of overlays, and the selection of those to run.

use crate::common::{plan, small_with, SMALL};
use perigee_study::{setup_json, Run, Study};

/// Two experiments over the small study: one that varies the algorithm, one without the ping that varies the loss.
const TWO: &str = r#"
[[experiments]]
name = "algorithms"
set = { "flows.echo.repeat" = 4 }
vary = { "flows.download.cc" = ["reno", "cubic"] }

[[experiments]]
name = "losses"
set = { "flows.echo.count" = 0, time_limit = "9 s" }
vary = { "links.wire.loss" = ["0 %", "1 %", "2 %"] }
reduced = { set = { "links.wire.loss" = "1 %" } }
"#;

fn two() -> String {
    let place = |mark: &str| SMALL.find(mark).unwrap_or(SMALL.len());
    format!("{}{TWO}\n{}", &SMALL[..place("[vary]")], &SMALL[place("[reduced]")..])
}

fn points(runs: &[Run]) -> Vec<&str> {
    runs.iter().filter(|run| run.round == 0).map(|run| &*run.scenario.point).collect()
}

fn refusal(experiment: &str) -> String {
    let text = two().replace("[[experiments]]\nname = \"losses\"", experiment);
    Study::parse(&text, "s.toml").map_or_else(|error| error.to_string(), |_| "none".to_owned())
}

#[test]
fn each_experiment_has_its_points_one_after_the_other() {
    let runs = plan(&two(), &[], false).unwrap();
    assert_eq!(runs.len(), 2 * 5);
    assert_eq!(
        points(&runs),
        [
            "{\"experiment\":\"algorithms\",\"flows.download.cc\":\"reno\"}",
            "{\"experiment\":\"algorithms\",\"flows.download.cc\":\"cubic\"}",
            "{\"experiment\":\"losses\",\"links.wire.loss\":\"0 %\"}",
            "{\"experiment\":\"losses\",\"links.wire.loss\":\"1 %\"}",
            "{\"experiment\":\"losses\",\"links.wire.loss\":\"2 %\"}",
        ]
    );
    let flows: Vec<usize> = runs.iter().take(5).map(|run| run.scenario.flows.len()).collect();
    assert_eq!(flows, [2, 2, 1, 1, 1], "the second has no ping");
    assert_ne!(runs[0].scenario.time_limit, runs[2].scenario.time_limit);
    let seeds: Vec<u64> = runs.iter().take(5).map(|run| run.seed).collect();
    assert!(seeds.iter().all(|&seed| seed == seeds[0]), "a round has one seed");
}

#[test]
fn what_varies_in_all_comes_first() {
    let text = two().replace(
        "[[experiments]]\nname = \"algo",
        "[vary]\n\"hosts.mss\" = [\"1000 B\", \"1460 B\"]\n[[experiments]]\nname = \"algo",
    );
    let runs = plan(&text, &["experiments=losses", "links.wire.loss=1 %"], false).unwrap();
    assert_eq!(
        points(&runs),
        [
            "{\"experiment\":\"losses\",\"hosts.mss\":\"1000 B\"}",
            "{\"experiment\":\"losses\",\"hosts.mss\":\"1460 B\"}"
        ]
    );
}

#[test]
fn the_reduced_sizes_of_study_and_experiment_are_both_laid() {
    let runs = plan(&two(), &[], true).unwrap();
    assert_eq!(points(&runs)[2..], ["{\"experiment\":\"losses\"}"]);
    let whole = plan(&two(), &[], false).unwrap();
    assert!(runs.len() < whole.len());
}

#[test]
fn settings_win_over_those_of_an_experiment_and_pin_what_varies() {
    let runs = plan(&two(), &["flows.echo.count=1", "flows.download.cc=bbr"], false).unwrap();
    assert_eq!(runs.iter().map(|run| run.scenario.flows.len()).collect::<Vec<_>>(), [2; 8]);
    assert_eq!(points(&runs)[0], "{\"experiment\":\"algorithms\"}");
}

#[test]
fn values_are_added_where_the_key_varies_and_somewhere_it_must() {
    let runs = plan(&two(), &["vary.flow.cc=+bbr"], false).unwrap();
    assert_eq!(points(&runs).len(), 6);
    let error = plan(&two(), &["vary.links.air.delay=+1 ms"], false).unwrap_err().to_string();
    assert_eq!(
        error,
        "--also links.air.delay: `links.air.delay` varies in none of the experiments; give all values with --vary"
    );
}

#[test]
fn only_the_named_experiments_are_carried_out() {
    let runs = plan(&two(), &["experiments=losses"], false).unwrap();
    assert_eq!(points(&runs).len(), 3);
    assert_eq!(plan(&two(), &["experiments=losses, algorithms"], false).unwrap().len(), 10);
    let error = plan(&two(), &["experiments=loses"], false).unwrap_err().to_string();
    assert!(error.starts_with("--experiment loses: the study has no such experiment; "), "{error}");
    assert!(error.contains("losses"), "{error}");
    for none in ["3", "[]", "{}"] {
        let error = plan(&two(), &[&format!("experiments={none}")], false).unwrap_err().to_string();
        assert_eq!(error, format!("--experiment {none}: names no experiment; write names, with commas between them"));
    }
    let error = plan(SMALL, &["experiments=losses"], false).unwrap_err().to_string();
    assert!(error.ends_with("it has none: leave the option out"), "{error}");
}

#[test]
fn variants_have_names_of_their_own() {
    let named = "way = [{ name = \"plain\", \"flows.download.cc\" = \"reno\" }, { name = \"no ping\", \"flows.echo.count\" = 0 }]";
    let text = small_with("\"flows.download.cc\" = [\"reno\", \"cubic\"]", named);
    let runs = plan(&text, &["links.air.down.rate=1 Mbit/s"], false).unwrap();
    assert_eq!(
        points(&runs),
        [
            "{\"way\":{\"name\":\"plain\",\"flows.download.cc\":\"reno\"}}",
            "{\"way\":{\"name\":\"no ping\",\"flows.echo.count\":0}}"
        ]
    );
    let chosen = |setting: &str| plan(&text, &["links.air.down.rate=1 Mbit/s", setting], false);
    let runs = chosen("way=no ping").unwrap();
    assert_eq!((points(&runs)[0], runs[0].scenario.flows.len()), ("{}", 1));
    let runs = chosen("vary.way=no ping, plain").unwrap();
    assert!(points(&runs)[0].contains("no ping") && points(&runs)[1].contains("plain"));
    let error = chosen("way=no pin").unwrap_err().to_string();
    assert!(error.contains("`way` has no variant `\"no pin\"`; did you mean `no ping`?"), "{error}");
    let error = |from: &str, to: &str| plan(&text.replace(from, to), &[], false).unwrap_err().to_string();
    for (from, to, said) in [
        ("no ping", "plain", "`vary.way` has the name \"plain\" twice, or it is empty; give each its own name"),
        ("name = \"plain\", ", "", "a variant of `vary.way` has no `name`; add name = \"...\""),
        ("\"no ping\"", "3", "`vary.way` has an integer as a name; write name = \"...\""),
        ("way = [", "cc = [", "`cc` cannot be the key of variants: results have it; choose another, as `sender`"),
        ("way = [", "\"a way\" = [", "`the key of variants` = `a way` is not a name"),
        ("{ name = \"no ping\", \"flows.echo.count\" = 0 }", "3", "`vary.way` holds an integer; write tables"),
    ] {
        let error = error(from, to);
        assert!(error.starts_with("s.toml:") && error.contains(said), "{error}");
    }
}

#[test]
fn the_setup_is_told_for_all_and_for_each() {
    let setup: serde_json::Value = serde_json::from_str(&setup_json(&plan(&two(), &[], false).unwrap())).unwrap();
    let count = |setup: &serde_json::Value| setup["flows"].as_array().unwrap().len();
    assert_eq!([&setup, &setup["experiments"]["algorithms"], &setup["experiments"]["losses"]].map(count), [2, 2, 1]);
    let networks = setup["experiments"]["losses"]["networks"].to_string();
    assert!(!networks.contains("algorithms"), "{networks}");
    let plain: serde_json::Value = serde_json::from_str(&setup_json(&plan(SMALL, &[], false).unwrap())).unwrap();
    assert!(plain.get("experiments").is_none());
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_the_fix() {
    let experiment = |rest: &str| {
        refusal(&format!("[[experiments]]\nname = \"algorithms\"\n{rest}\n[[experiments]]\nname = \"losses\""))
    };
    assert!(experiment("").contains("`experiments.name` = `algorithms` is there twice; rename one of them"));
    let experiment =
        |rest: &str| refusal(&format!("[[experiments]]\nname = \"third\"\n{rest}\n[[experiments]]\nname = \"losses\""));
    for (rest, said) in [
        ("sett = {}", "unknown key `experiments.sett`"),
        ("set = 3", "`experiments.set` is an integer; write { \"KEY PATH\" = value }"),
        ("set = { rounds = 3 }", "`rounds` cannot be set for one experiment; it is the study's: write it outside"),
        ("set = { \"flows.nobody.cc\" = \"bbr\" }", "there is no `nobody` among the flows"),
        ("vary = { \"flow.cc\" = [] }", "`vary.flow.cc` is empty"),
        ("vary = { seed = [1, 2] }", "`seed` cannot vary"),
    ] {
        let error = experiment(rest);
        assert!(error.contains(said), "{error}");
        assert!(error.starts_with("s.toml:"), "{error}");
    }
}

#[test]
fn a_variant_is_chosen_by_a_name_that_looks_like_a_number() {
    let named =
        "bdp = [{ name = \"40\", \"flows.download.cc\" = \"reno\" }, { name = \"1e3\", \"flows.echo.count\" = 0 }]";
    let text = small_with("\"flows.download.cc\" = [\"reno\", \"cubic\"]", named)
        .replace("set = { rounds = 1,", "set = { rounds = 1, bdp = 40,");
    let points_of = |setting: &str, reduced: bool| {
        let runs = plan(&text, &["links.air.down.rate=1 Mbit/s", setting], reduced).unwrap();
        points(&runs).iter().map(|point| (*point).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(points_of("bdp=40", false), ["{}"]);
    assert_eq!(points_of("bdp=1e3", false), ["{}"]);
    assert_eq!(points_of("seed=7", true), ["{}"]);
    let both = points_of("vary.bdp=1e3,40", false);
    assert!(both[0].contains("\"1e3\"") && both[1].contains("\"40\""), "{both:?}");
}
