//! The ends of TCP connections: their settings and congestion controls.

use perigee_cc::{in_place_of, Algorithm, CcError, Selected};
use perigee_results::Name;
use perigee_settings::{Config, Domain, Kernel, Setting, System, Value, SETTINGS};
use perigee_text::{clip, json_of, text_of, Content, Node, Reader, StrictError};
use perigee_units::Bytes;

use crate::built_in::built_in;
use crate::flows::FLOW;
use crate::hosts::LIKE;
use crate::outside::{is_path, Outside, Place};
use crate::run::Traffic;

/// Applies the settings of a table to `config`: those of its system first.
pub(crate) fn apply_tcp(table: &Reader<'_>, config: &mut Config) -> Result<(), StrictError> {
    if let Some(system) = table.table.get::<String>(LIKE)?.and_then(|name| System::named(&name)) {
        *config = system.config();
    }
    for setting in SETTINGS {
        if let Some(value) = tcp_value(table, setting)? {
            setting.set(config, value);
        }
    }
    if config.rto_min > config.rto_max {
        let message =
            format!("`{}` = {} is above rto_max = {}", table.dotted("rto_min"), config.rto_min, config.rto_max);
        return Err(table.error("rto_min", message, "lower it, or raise rto_max"));
    }
    Ok(())
}

/// Gives each setting for which Linux has nothing its default, and the tick, which a kernel has as it was built, at all ends of a flow's
/// connections.
pub(crate) fn keep_to_kernel(traffic: &mut Traffic) {
    let (Traffic::Tcp { tcp, .. } | Traffic::Population { tcp, .. }) = traffic else { return };
    let legs = tcp.legs.iter_mut().flat_map(|leg| [&mut leg.sender.config, &mut leg.receiver.config]);
    let defaults = Config::default();
    for config in legs.chain([&mut tcp.from, &mut tcp.to]) {
        for setting in SETTINGS.iter().filter(|setting| setting.kernel == Kernel::Nothing || setting.name == "tick") {
            setting.set(config, setting.get(&defaults));
        }
    }
}

/// The value of a setting in a table.
fn tcp_value(table: &Reader<'_>, setting: &Setting) -> Result<Option<Value>, StrictError> {
    let (table, key) = (&table.table, setting.name);
    Ok(match setting.domain {
        Domain::Switch => table.get(key)?.map(Value::Switch),
        Domain::Count { .. } => table.get(key)?.map(Value::Count),
        Domain::Duration { .. } => table.get(key)?.map(Value::Duration),
        Domain::Size { .. } => table.get(key)?.map(Value::Size),
        Domain::Sizes => table.get::<Vec<Bytes>>(key)?.and_then(|sizes| sizes.try_into().ok()).map(Value::Sizes),
        Domain::Choice(words) => {
            let word = table.get::<String>(key)?;
            words.iter().find(|known| Some(**known) == word.as_deref()).copied().map(Value::Choice)
        }
    })
}

/// The congestion control that a table names in `cc`, or the default, and the parameters that the study sets, as a JSON object.
/// An author's file is read if `outside` is given; otherwise the default stands for it.
pub(crate) fn congestion_control(
    table: &Reader<'_>,
    outside: &mut Option<&mut dyn Outside>,
) -> Result<(Selected, Name), StrictError> {
    let unset = || {
        let error = |error: CcError| table.error("cc", error.to_string(), "name another in `cc`");
        let default = FLOW.find("cc").map_or("", |key| key.default);
        Selected::parse(default, &[]).map(|cc| (cc, "{}".into())).map_err(error)
    };
    let Some(node) = table.table.node("cc") else { return unset() };
    let (name_node, params): (_, Vec<_>) = match &node.content {
        Content::Text(_) => (Some(node), Vec::new()),
        Content::Table(entries) => (node.get("name"), entries.iter().filter(|(key, _)| key != "name").collect()),
        _ => (None, Vec::new()),
    };
    let what = table.dotted("cc");
    let Some((name_node, name)) = name_node.and_then(|node| Some((node, text_of(node)?))) else {
        let message = format!("`{what}` names no congestion control");
        return Err(StrictError::new(&node.origin, message, "write \"cubic\" or { name = \"cubic\" }"));
    };
    let algorithm = match (is_path(name), outside) {
        (false, _) => built_in(name, name_node, &what)?,
        (true, Some(outside)) => authored(name, name_node, &what, &mut **outside)?,
        // Its name and parameters are not known yet.
        (true, None) => return unset(),
    };
    let (mut settings, mut json) = (Vec::new(), serde_json::Map::new());
    for (key, node) in params {
        if !algorithm.params().iter().any(|param| param.name == key) {
            let message = format!("`{what}`: `{}` has no parameter `{}`", algorithm.name(), clip(key));
            return Err(StrictError::new(&node.origin, message, in_place_of(algorithm, key)));
        }
        let text = match &node.content {
            Content::Text(text) => text.clone(),
            Content::Integer(n) => n.to_string(),
            Content::Float(x) => x.to_string(),
            Content::Boolean(b) => b.to_string(),
            Content::Array(_) | Content::Table(_) => {
                let message = format!("`{what}.{key}` is {}", node.kind());
                return Err(StrictError::new(&node.origin, message, "write one value"));
            }
        };
        // One at a time, so that an error has its own line.
        Selected::of(algorithm, &[(key, &text)]).map_err(|error| cc_error(&what, &error, node))?;
        json.insert(key.clone(), json_of(node));
        settings.push((key.as_str(), text));
    }
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, text)| (*key, text.as_str())).collect();
    let selected = Selected::of(algorithm, &settings).map_err(|error| cc_error(&what, &error, node))?;
    selected.begin().map_err(|error| cc_error(&what, &error, node))?;
    Ok((selected, serde_json::Value::Object(json).to_string().into()))
}

/// The algorithm of an author's file.
fn authored(path: &str, node: &Node, what: &str, outside: &mut dyn Outside) -> Result<&'static Algorithm, StrictError> {
    let place = if node.origin.has_lines() { Place::Study } else { Place::Setting };
    outside
        .algorithm(path, place)
        .map_err(|why| StrictError::new(&node.origin, format!("`{what}`: `{}` {}", clip(path), why.message), why.fix))
}

fn cc_error(what: &str, error: &CcError, node: &Node) -> StrictError {
    StrictError::new(&node.origin, format!("`{what}`: {}", error.message()), error.fix())
}

#[cfg(test)]
mod tests {
    use perigee_text::{parse_value, Origin};

    use super::*;
    use crate::hosts::TCP;

    /// `config` after a table with one setting.
    fn with(setting: &Setting, text: &str, mut config: Config) -> Config {
        let origin = Origin::place("test");
        let mut node = Node::empty_table(&origin);
        node.set(&[setting.name], parse_value(text, &origin));
        let table = Reader::open(&node, "hosts", &TCP, &[]).unwrap_or_else(|error| panic!("{error}"));
        apply_tcp(&table, &mut config).unwrap_or_else(|error| panic!("{error}"));
        config
    }

    /// A value of a setting that is not its default, as a study would write it.
    fn another(setting: &Setting) -> String {
        let other = |a: String, b: String| if setting.default == a { b } else { a };
        match setting.domain {
            Domain::Switch => other("true".into(), "false".into()),
            Domain::Count { min, max } => other(max.to_string(), min.to_string()),
            // Between the defaults of `rto_min` and `rto_max`.
            Domain::Duration { max, .. } => format!("{} ms", max.as_millis().min(201)),
            Domain::Size { max, .. } => max.to_string(),
            Domain::Sizes => "[\"5 kB\", \"6 kB\", \"7 kB\"]".into(),
            Domain::Choice(words) => other(words[0].into(), words[1].into()),
        }
    }

    #[test]
    fn a_system_replaces_what_tables_above_say_and_settings_beside_it_win() {
        let old = System::named("linux-2.6.20").expect("a system");
        let origin = Origin::place("test");
        let mut node = Node::empty_table(&origin);
        node.set(&[LIKE], parse_value("linux-2.6.20", &origin));
        node.set(&["initial_window"], parse_value("4", &origin));
        let table = Reader::open(&node, "hosts", &TCP, &[]).unwrap_or_else(|error| panic!("{error}"));
        let mut config = Config { sack: false, rack: true, ..Config::default() };
        apply_tcp(&table, &mut config).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config, Config { initial_window: 4, ..old.config() });
        assert!(config.sack && !config.rack);
    }

    #[test]
    fn a_setting_changes_itself_alone_and_its_default_undoes_that() {
        for setting in SETTINGS {
            let changed = with(setting, &another(setting), Config::default());
            let different: Vec<_> = changed.differences().map(|(setting, _)| setting.name).collect();
            assert_eq!(different, [setting.name]);
            assert_eq!(with(setting, setting.default, changed), Config::default(), "{}", setting.name);
        }
    }
}
