//! The content of the module, as the page gets it.

use perigee_cc::{algorithms, Algorithm};
use perigee_text::{text_of, Node};
use serde_json::{json, Value};

use crate::shelf::{Shelf, FILES};

/// The congestion controls, those that the page added last.
pub(crate) fn algorithms_json(shelf: &Shelf) -> Value {
    let built_in = algorithms().iter().map(|algorithm| algorithm_json(algorithm, None));
    built_in.chain(shelf.own().map(|(file, algorithm)| algorithm_json(algorithm, Some(file)))).collect()
}

/// A congestion control; `file`: it is of this file of an author.
pub(crate) fn algorithm_json(algorithm: &Algorithm, file: Option<&str>) -> Value {
    let params = algorithm.params().iter().map(|param| {
        json!({
            "name": param.name,
            "unit": param.unit,
            "default": param.text(param.default),
            "min": param.text(param.min),
            "max": param.text(param.max),
            "doc": param.doc,
        })
    });
    json!({
        "name": algorithm.name(),
        "title": algorithm.title(),
        "own": file.is_some(),
        "file": file,
        "params": params.collect::<Value>(),
    })
}

/// The link profiles: name and text. A file with another name inside is an old name of that one.
pub(crate) fn profiles_json() -> Value {
    let profile = |(path, text): &(&str, &str)| {
        let name = path.strip_prefix("profiles/")?.strip_suffix(".toml")?;
        let own = perigee_text::parse(text, path).ok()?.get("name").and_then(text_of)?.to_owned();
        (own == name).then(|| json!({"name": name, "text": text}))
    };
    FILES.iter().filter_map(profile).collect()
}

/// The shipped studies: name, file below `studies/`, title, question and text.
pub(crate) fn studies_json() -> Value {
    let study = |(path, text): &(&str, &str)| {
        let file = path.strip_prefix("studies/").filter(|file| file.strip_suffix(".toml").is_some())?;
        let root = perigee_text::parse(text, file).ok()?;
        let head = |key: &str| root.get(key).and_then(text_of).unwrap_or_default().to_owned();
        let is_reducible = root.get("reduced").is_some();
        Some(json!({
            "name": head("name"),
            "file": file,
            "title": head("title"),
            "about": head("about"),
            "reducible": is_reducible,
            "text": text,
        }))
    };
    FILES.iter().filter_map(study).collect()
}

/// Whether a study declares a reduced size.
pub(crate) fn is_reducible(text: &str, file: &str) -> bool {
    perigee_text::parse(text, file).is_ok_and(|root: Node| root.get("reduced").is_some())
}
