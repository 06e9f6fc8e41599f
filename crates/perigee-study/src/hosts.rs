//! `[hosts]`: a key for each TCP setting of an endpoint.

use perigee_settings::{Domain, Setting, SETTINGS};
use perigee_text::{key, Key, Kind, Section};

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
