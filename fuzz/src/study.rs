//! Fuzz target of the study reader. The plain tests of `perigee-study` replay the corpus
//! through the same function.

use perigee_study::{plan_json, Overrides, Study, StudyError};

/// A study, read and laid out twice; the files it names are short ones.
pub(crate) fn study(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(study) = checked(Study::parse(text, "fuzz")) else { return };
    let settings = [vec![], vec!["inputs.bw=b", "inputs.delay=d"], vec!["flow.cc=hybla", "rounds=2"]];
    for (settings, reduced) in settings.iter().zip([false, false, true]) {
        let overrides = Overrides::new(settings, reduced).expect("these settings have a key and a value");
        let plan = || study.plan(&overrides, &mut load);
        if let Some(runs) = checked(plan()) {
            assert!(!runs.is_empty(), "a plan of nothing");
            assert!(runs.len() > 1000 || plan_json(&runs) == plan().map(|again| plan_json(&again)).unwrap_or_default());
        }
    }
}

fn load(name: &str) -> Result<Vec<u8>, String> {
    match name {
        "b" => Ok(b"1\n1\n7\n".to_vec()),
        "d" => Ok(b"12\n40\n5\n".to_vec()),
        "profiles/geo.toml" => Ok(GEO.into()),
        _ => Err("no such file".to_owned()),
    }
}

/// The value, or nothing where there is an error; that must be one line that names the place and the fix.
fn checked<T>(result: Result<T, StudyError>) -> Option<T> {
    result
        .map_err(|error| {
            let text = error.to_string();
            assert!(!text.contains('\n') && text.len() < 4_000, "not one line: {text}");
            assert!(text.contains(": ") && text.contains("; "), "no place or fix: {text}");
        })
        .ok()
}

const GEO: &str =
    "name = \"geo\"\ntitle = \"geo\"\nsource = \"none\"\n[link]\nrate = \"10 Mbit/s\"\ndelay = \"300 ms\"\n";
