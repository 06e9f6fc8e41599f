//! `[[experiments]]`: parts of a study with settings and varied keys of their own.

use std::collections::BTreeSet;

use perigee_text::{clip, entries_of, items_of, parse_value, text_of, Content, Node, Origin, Reader, StrictError};
use perigee_units::suggestion;

use crate::keys::STUDY;
use crate::overrides::Overrides;

/// One experiment.
pub(crate) struct Experiment {
    pub(crate) name: String,
    /// Key paths and values beside those of the study.
    pub(crate) set: Vec<(String, Node)>,
    /// Its `vary` table, beside that of the study.
    pub(crate) vary: Option<Node>,
    /// Key paths and values of its reduced size, beside those of the study's.
    pub(crate) reduced: Vec<(String, Node)>,
}

/// The experiments of a study, in order; empty if it has none.
pub(crate) fn experiments(root: &Node) -> Result<Vec<Experiment>, StrictError> {
    let (study, mut names, mut found) = (Reader::open(root, "", &STUDY, &[])?, BTreeSet::new(), Vec::new());
    study.inner("reduced")?;
    for table in study.each(EXPERIMENTS)? {
        let table = table?;
        let name = table.unique_name(&mut names)?;
        let set = settings(table.table.node("set"), "experiments.set")?;
        let reduced = table.inner("reduced")?;
        let reduced = settings(reduced.and_then(|table| table.table.node("set")), "experiments.reduced.set")?;
        found.push(Experiment { name, set, vary: table.table.node("vary").cloned(), reduced });
    }
    Ok(found)
}

/// The selected experiments: all, or those that the overrides name, in the order of the study.
pub(crate) fn chosen<'a>(
    all: &'a [Experiment],
    overrides: &Overrides,
) -> Result<impl Iterator<Item = &'a Experiment>, StrictError> {
    let mut wanted: Option<BTreeSet<String>> = None;
    for (_, text) in overrides.set.iter().filter(|(path, _)| path == EXPERIMENTS) {
        let names = wanted.get_or_insert_default();
        let origin = Origin::place(&format!("--experiment {}", clip(text)));
        let given = parse_value(text, &origin);
        let listed: Vec<&str> = match &given.content {
            Content::Text(text) => text.split(',').map(str::trim).collect(),
            _ => items_of(&given).iter().map(|item| text_of(item).unwrap_or_default()).collect(),
        };
        if listed.is_empty() {
            return Err(StrictError::new(&origin, "names no experiment", "write names, with commas between them"));
        }
        for name in listed {
            if !all.iter().any(|one| one.name == name) {
                let message = "the study has no such experiment";
                let fix = match all {
                    [] => "it has none: leave the option out".to_owned(),
                    _ => suggestion(name, all.iter().map(|one| one.name.as_str())),
                };
                return Err(StrictError::new(&origin, message, fix));
            }
            names.insert(name.to_owned());
        }
    }
    Ok(all.iter().filter(move |one| wanted.as_ref().is_none_or(|names| names.contains(&one.name))))
}

/// Key paths and values; keys of the whole study are refused.
fn settings(table: Option<&Node>, what: &str) -> Result<Vec<(String, Node)>, StrictError> {
    let Some(table) = table else { return Ok(Vec::new()) };
    if !matches!(table.content, Content::Table(_)) {
        let message = format!("`{what}` is {}", table.kind());
        return Err(StrictError::new(&table.origin, message, "write { \"KEY PATH\" = value }"));
    }
    let entries = entries_of(table);
    let of_all = |path: &str| matches!(path.split('.').next(), Some("seed" | "rounds" | "independent" | "live"));
    match entries.iter().find(|(path, _)| of_all(path)) {
        None => Ok(entries.to_vec()),
        Some((path, value)) => {
            let message = format!("`{}` cannot be set for one experiment", clip(path));
            Err(StrictError::new(&value.origin, message, "it is the study's: write it outside"))
        }
    }
}

/// The key of the experiments, in a study and among settings.
pub(crate) const EXPERIMENTS: &str = "experiments";
