//! `[hosts]`: a key for each TCP setting of an endpoint.

use perigee_settings::{Config, Domain, Setting, Value, SETTINGS};
use perigee_text::{key, Key, Kind, Section};
use perigee_units::Bytes;

/// `[hosts]`, `[hosts.NODE]`, and `tcp` of a flow: a key for each setting of an endpoint.
pub(crate) static TCP: Section = Section { name: "hosts", keys: &TCP_KEYS };

const TCP_KEYS: [Key; SETTINGS.len()] = {
    let mut keys = [key("", Kind::Text, "", ""); SETTINGS.len()];
    let mut at = 0;
    while at < keys.len() {
        let Setting { name, domain, default, about, .. } = SETTINGS[at];
        keys[at] = key(name, of(domain), default, about);
        at += 1;
    }
    keys
};

/// What the key of a TCP setting takes.
const fn of(domain: Domain) -> Kind {
    match domain {
        Domain::Switch => Kind::Bool,
        Domain::Count { min, max } => Kind::Integer { min: min as u64, max: max as u64 },
        Domain::Duration { min, max } => Kind::Time { min, max },
        Domain::Size { min, max } => Kind::Size { min, max },
        Domain::Sizes => Kind::ThreeSizes,
        Domain::Choice(words) => Kind::Word(words),
    }
}

/// All settings of a host in words.
pub(crate) fn in_words(config: &Config) -> Vec<(&'static str, String)> {
    let settings = SETTINGS.iter().map(|setting| (setting.report, setting_in_words(setting.get(config))));
    settings.chain([("largest receive window", size(config.largest_window()))]).collect()
}

/// The value of a setting in words.
pub(crate) fn setting_in_words(value: Value) -> String {
    match value {
        Value::Switch(true) => "on".to_owned(),
        Value::Switch(false) => "off".to_owned(),
        Value::Count(u32::MAX) => "unlimited".to_owned(),
        Value::Count(count) => count.to_string(),
        Value::Duration(time) => time.to_string(),
        Value::Size(bytes) => size(bytes),
        Value::Sizes(sizes) => sizes.map(size).join(", "),
        Value::Choice(word) => word.to_owned(),
    }
}

/// A size, in bytes up to 9999 B: in decimal units where it is a whole number of kilobytes, in binary ones where it is a
/// quarter of one, otherwise rounded to 1 kB.
fn size(bytes: Bytes) -> String {
    let exact = bytes.as_u64();
    if exact < 10_000 {
        return format!("{exact} B");
    }
    if exact % 1000 == 0 {
        return bytes.to_string();
    }
    let binary = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match binary.into_iter().find(|&(_, unit)| exact >= unit && exact % (unit / 4) == 0) {
        Some((name, unit)) => format!("{} {name}", exact as f64 / unit as f64),
        None => Bytes::new((exact + 500) / 1000 * 1000).to_string(),
    }
}
