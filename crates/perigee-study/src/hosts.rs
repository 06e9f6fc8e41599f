//! `[hosts]`: a key for each TCP setting of an endpoint.

use perigee_settings::{Config, Domain, Setting, System, Value, SETTINGS, SYSTEMS};
use perigee_text::{key, Key, Kind, Section};
use perigee_units::Bytes;

/// `[hosts]`, `[hosts.NODE]`, and `tcp` of a flow: a system, and a key for each setting of an endpoint.
pub(crate) static TCP: Section = Section { name: "hosts", keys: &TCP_KEYS };

/// The key that names a system.
pub(crate) const LIKE: &str = "like";

const TCP_KEYS: [Key; 1 + SETTINGS.len()] = {
    let about = "System whose TCP the hosts have: all settings are its, whatever tables above this one say; those \
        beside `like`, and in tables below, win over it. `perigee hosts` shows the values of each, and their sources.";
    let mut keys = [key(LIKE, Kind::Word(&SYSTEM_NAMES), "", about); 1 + SETTINGS.len()];
    let mut at = 0;
    while at < SETTINGS.len() {
        let Setting { name, domain, default, about, .. } = SETTINGS[at];
        at += 1;
        keys[at] = key(name, of(domain), default, about);
    }
    keys
};

const SYSTEM_NAMES: [&str; SYSTEMS.len()] = {
    let mut names = [""; SYSTEMS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = SYSTEMS[at].name;
        at += 1;
    }
    names
};

/// Returns the kind of a TCP setting's key.
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
    let system = ("system", system_in_words(config));
    let settings = SETTINGS.iter().map(|setting| (setting.report, setting_in_words(setting.get(config))));
    [system].into_iter().chain(settings).chain([("largest receive window", size(config.largest_window()))]).collect()
}

/// The system that a host is nearest to, and what it has otherwise.
fn system_in_words(config: &Config) -> String {
    let (system, differences) = System::nearest(config);
    let others =
        differences.into_iter().map(|(setting, value)| format!("{} {}", setting.report, setting_in_words(value)));
    match others.collect::<Vec<_>>() {
        others if others.is_empty() => system.title.to_owned(),
        others => format!("{}, but {}", system.title, others.join(", ")),
    }
}

/// The settings of a system: each one's name, its value in words, and the source of a value that is not the setting's default.
pub fn system_settings(system: &System) -> Vec<(&'static str, String, &'static str)> {
    let config = system.config();
    let source = |name| system.presets.iter().find(|preset| preset.setting == name).map_or("", |preset| preset.source);
    let settings = SETTINGS.iter();
    settings.map(|setting| (setting.name, setting_in_words(setting.get(&config)), source(setting.name))).collect()
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
    if exact.is_multiple_of(1000) {
        return bytes.to_string();
    }
    let binary = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match binary.into_iter().find(|&(_, unit)| exact >= unit && exact.is_multiple_of(unit / 4)) {
        Some((name, unit)) => format!("{} {name}", exact as f64 / unit as f64),
        None => Bytes::new((exact + 500) / 1000 * 1000).to_string(),
    }
}
