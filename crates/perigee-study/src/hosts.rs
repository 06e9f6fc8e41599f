//! `[hosts]`: a key for each TCP setting of an endpoint.

use perigee_tcp::{Setting, SETTINGS};

use crate::section::{key, Key, Kind, Section};

/// `[hosts]`, `[hosts.NODE]`, and `tcp` of a flow: a key for each setting of an endpoint.
pub(crate) static TCP: Section = Section { name: "hosts", keys: &TCP_KEYS };

const TCP_KEYS: [Key; SETTINGS.len()] = {
    let mut keys = [key("", Kind::Text, "", ""); SETTINGS.len()];
    let mut at = 0;
    while at < keys.len() {
        let Setting { name, domain, default, about, .. } = SETTINGS[at];
        keys[at] = key(name, Kind::of_setting(domain), default, about);
        at += 1;
    }
    keys
};
