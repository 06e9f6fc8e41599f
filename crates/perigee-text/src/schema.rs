//! Schemas for editors and tables for people, of what is declared.

use std::fmt::Write;

use perigee_units::{Bytes, Rate, Ratio, Time};
use serde_json::{json, Map, Value};

use crate::section::{Key, Kind, Process, Section, MOST_RATES};

/// A file whose keys are declared.
#[derive(Clone, Copy, Debug)]
pub struct Document {
    /// Its title.
    pub title: &'static str,
    /// Its root table.
    pub root: &'static Section,
    /// A table that several keys take, and whose processes are referred to by their names.
    pub shared: &'static Section,
}

impl Document {
    /// Its JSON schema (2020-12), for editors.
    pub fn json(&self) -> String {
        let mut schema = self.section(self.root);
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = json!(self.title);
        // A process of the root's tables and of the shared one is the same.
        let processes = self.tables().flat_map(Section::processes);
        let processes = processes.map(|process| (process.name.to_owned(), self.process(process)));
        let shared = (self.shared.name.to_owned(), self.section(self.shared));
        schema["$defs"] = Value::Object(processes.chain([shared]).collect());
        pretty(&schema)
    }

    /// The tables with processes: those of the root, and the shared one.
    fn tables(&self) -> impl Iterator<Item = &'static Section> {
        let of_root = self.root.keys.iter().filter_map(|key| match key.kind {
            Kind::Table(section) | Kind::Tables(section) => Some(section),
            _ => None,
        });
        of_root.chain([self.shared])
    }

    fn process(&self, process: &Process) -> Value {
        let tables = process.forms.iter().map(|form| {
            let mut schema = self.section(form.section);
            if let (Some(kind), Some(required)) = (form.kind, schema["required"].as_array().cloned()) {
                schema["properties"]["kind"] = json!({ "const": kind });
                schema["required"] = [json!("kind")].into_iter().chain(required).collect();
            }
            schema
        });
        // A value may also name an input, whatever it takes.
        let input = json!({ "type": "string", "pattern": "^\\$\\{inputs\\.[A-Za-z0-9_-]+\\}$" });
        let plain = process.plain.map(|kind| self.kind(*kind));
        let ways: Vec<Value> = plain.into_iter().chain(tables).chain([input]).collect();
        let one = json!({ "anyOf": ways });
        if process.is_list {
            json!({ "anyOf": [one.clone(), { "type": "array", "items": one }] })
        } else {
            one
        }
    }

    fn section(&self, section: &Section) -> Value {
        let properties: Map<String, Value> =
            section.keys.iter().map(|key| (key.name.to_owned(), self.key(key))).collect();
        let required: Vec<&str> = section.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    fn key(&self, key: &Key) -> Value {
        let mut schema = self.kind(key.kind);
        schema["description"] = json!(key.about);
        if !key.default.is_empty() {
            // Numbers, switches and lists are written as in TOML; all else is text.
            schema["default"] = serde_json::from_str(key.default).unwrap_or_else(|_| json!(key.default));
        }
        schema
    }

    fn kind(&self, kind: Kind) -> Value {
        let off = || json!({ "const": "off" });
        match kind {
            Kind::Text => json!({ "type": "string" }),
            Kind::Name => name_schema(),
            Kind::Names => json!({ "type": "array", "items": name_schema(), "uniqueItems": true }),
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Kind::Time { .. } => quantity(Time::units()),
            Kind::TimeOrOff { .. } => json!({ "anyOf": [quantity(Time::units()), off()] }),
            Kind::Size { .. } => quantity(Bytes::units()),
            Kind::Sizes => json!({ "type": "array", "items": quantity(Bytes::units()), "minItems": 1 }),
            Kind::ThreeSizes => {
                json!({ "type": "array", "items": quantity(Bytes::units()), "minItems": 3, "maxItems": 3 })
            }
            Kind::Rate => quantity(Rate::units()),
            Kind::Rates => {
                json!({ "type": "array", "items": quantity(Rate::units()), "minItems": 1, "maxItems": MOST_RATES })
            }
            Kind::RateFrom(_) => json!({ "anyOf": [quantity(Rate::units()), { "const": "unlimited" }] }),
            Kind::Share => quantity(Ratio::units()),
            Kind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
            Kind::ShareOrOff => json!({ "anyOf": [quantity(Ratio::units()), off()] }),
            Kind::SizeOrTimeOrOff => json!({ "anyOf": [quantity(Bytes::units()), quantity(Time::units()), off()] }),
            Kind::Word(words) => json!({ "enum": words }),
            Kind::Table(section) if section.name == self.shared.name => {
                json!({ "$ref": format!("#/$defs/{}", section.name) })
            }
            Kind::Table(section) => self.section(section),
            Kind::Tables(section) => json!({ "type": "array", "items": self.section(section) }),
            Kind::TableAndOnePer { section, .. } => {
                let mut schema = self.section(section);
                schema["additionalProperties"] = self.section(section);
                schema
            }
            Kind::TablePer { section, .. } => {
                json!({ "type": "object", "additionalProperties": self.section(section) })
            }
            Kind::Process(process) => json!({ "$ref": format!("#/$defs/{}", process.name) }),
            Kind::Texts => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            Kind::Special(special) => special.schema.map_or_else(|| json!({}), |schema| schema()),
        }
    }
}

/// A page of a reference with its tables of keys brought up to date: each stands between `<!-- keys: NAME -->` and
/// `<!-- end -->`, and `table` gives it. `None` where such a mark is missing its end or names no table.
pub fn page_markdown(page: &str, table: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(MARK) {
        let (name, inside) = after.split_once(" -->\n")?;
        let (_, after) = inside.split_once(END)?;
        let _ = write!(text, "{before}{MARK}{name} -->\n{}{END}", table(name)?);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// A further column of a table of keys: its title, and what it says of a key.
pub type Further = (&'static str, fn(&Key) -> String);

/// The keys of a table, for people.
pub fn key_table(section: &Section, further: Option<Further>) -> String {
    let mut text = match further {
        Some((title, _)) => format!("| key | takes | default | meaning | {title} |\n|---|---|---|---|---|\n"),
        None => "| key | takes | default | meaning |\n|---|---|---|---|\n".to_owned(),
    };
    for key in section.keys {
        let default = match (key.required, key.default) {
            (true, _) => "required".to_owned(),
            (false, "") => "-".to_owned(),
            (false, default) => format!("`{default}`"),
        };
        let only = if key.only.is_empty() { String::new() } else { format!(" (`{}`)", key.only.join("`, `")) };
        let _ = write!(text, "| `{}`{only} | {} | {default} | {} |", key.name, takes(key.kind), key.about);
        text.push_str(&further.map_or_else(String::new, |(_, of)| format!(" {} |", of(key))));
        text.push('\n');
    }
    text
}

/// Describes the values of a kind.
fn takes(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".into(),
        Kind::Name => "a name".into(),
        Kind::Names => "names".into(),
        Kind::Bool => "`true` or `false`".into(),
        Kind::Integer { min, max } => format!("{min} to {max}"),
        Kind::Time { min, max } => format!("time, {min} to {max}"),
        Kind::TimeOrOff { min, max } => format!("time, {min} to {max}, or `\"off\"`"),
        Kind::Size { min, max } => format!("size, {min} to {max}"),
        Kind::Sizes => "sizes".into(),
        Kind::ThreeSizes => "three sizes that do not fall".into(),
        Kind::Rate => "rate above zero".into(),
        Kind::Rates => "rates that rise".into(),
        Kind::RateFrom(min) if min == Rate::ZERO => "rate".into(),
        Kind::RateFrom(min) => format!("rate of {min} or more"),
        Kind::Share => "share".into(),
        Kind::Number { min, max } => format!("number, {min} to {max}"),
        Kind::ShareOrOff => "share above zero, or `\"off\"`".into(),
        Kind::SizeOrTimeOrOff => "size or time above zero, or `\"off\"`".into(),
        Kind::Word(words) => format!("`\"{}\"`", words.join("\"`, `\"")),
        Kind::Table(section) => format!("a table, see {}", section.name),
        Kind::Tables(section) => format!("tables, see {}", section.name),
        Kind::TableAndOnePer { of, section } => format!("a table, see {}, and one per {of}", section.name),
        Kind::TablePer { of, section } => format!("a table per {of}, see {}", section.name),
        Kind::Process(process) => process_takes(process),
        Kind::Texts => "names and texts".into(),
        Kind::Special(special) => special.takes.into(),
    }
}

/// Describes the values of a process.
fn process_takes(process: &Process) -> String {
    let tables = process.forms.iter().map(|form| match form.kind {
        None => format!("a table, see {}", form.section.name),
        Some(kind) => format!("`{{ kind = \"{kind}\" }}`, see {}", form.section.name),
    });
    let mut ways: Vec<String> = process.plain.map(|kind| takes(*kind)).into_iter().chain(tables).collect();
    if process.is_list {
        ways.push("an array of these".into());
    }
    ways.join("; ")
}

/// The JSON schema of a name.
pub fn name_schema() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" })
}

fn quantity(units: impl Iterator<Item = &'static str>) -> Value {
    let units = units.collect::<Vec<_>>().join("|");
    json!({ "type": "string", "pattern": format!("^\\s*\\+?[0-9_.]+([eE][-+]?[0-9]+)?\\s*({units})\\s*$") })
}

/// JSON as files have it.
pub fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

const MARK: &str = "<!-- keys: ";
const END: &str = "<!-- end -->";
