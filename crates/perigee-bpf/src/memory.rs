//! The memory of paths: what connections saved by the prefix of their peer's address, for later ones (Careful Resume, RFC 9959).
//!
//! An algorithm whose file has `CC_PATHS` has a map for it. The loader makes it large enough and pins it beside the link of
//! the algorithm, where a later version of the same name finds it.

use std::net::{Ipv4Addr, Ipv6Addr};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use rustix::time::{clock_gettime, ClockId};
use serde::Serialize;

use crate::error::{StatusError, SystemError};
use crate::prefix::Prefix;
use crate::store::{Place, Store, MEMORY};

/// The state of the path to a network that connections saved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Remembered {
    /// The name of the congestion control that remembers it.
    pub cc: String,
    /// Prefix of the peers' addresses.
    pub to: String,
    /// Packets that arrived in the last round trip of a connection.
    pub window_packets: u32,
    /// Its least round trip, us.
    pub rtt_us: u32,
    /// Time since it was saved, s.
    pub age_s: f64,
    /// Whether a connection begins with it now.
    pub is_claimed: bool,
}

/// Lists what loaded congestion controls remember, sorted by name and network.
///
/// # Errors
/// If the maps cannot be read, which needs root.
pub fn memory() -> Result<Vec<Remembered>, StatusError> {
    let Some(store) = Store::view()? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (name, place) in store.places()? {
        found.extend(read(&name, &place)?.into_iter().map(|(_, remembered)| remembered));
    }
    found.sort_by(|one, next| (&one.cc, &one.to).cmp(&(&next.cc, &next.to)));
    Ok(found)
}

/// Forgets what the congestion control of this name remembers, or what all do, of all networks or of those within `to`; returns it.
///
/// # Errors
/// If the maps cannot be read, which needs root.
pub fn forget(cc: Option<&str>, to: Option<Prefix>) -> Result<Vec<Remembered>, StatusError> {
    let Some(store) = Store::view()? else { return Ok(Vec::new()) };
    let mut gone = Vec::new();
    for (name, place) in store.places()? {
        if cc.is_some_and(|cc| cc != name) {
            continue;
        }
        let Some(map) = open(&place)? else { continue };
        for (key, remembered) in read(&name, &place)? {
            let is_within = to.is_none_or(|to| remembered.to.parse().is_ok_and(|prefix| to.contains(prefix)));
            if is_within && map.delete(&key).is_ok() {
                gone.push(remembered);
            }
        }
    }
    Ok(gone)
}

fn open(place: &Place) -> Result<Option<MapHandle>, SystemError> {
    if !place.has(MEMORY) {
        return Ok(None);
    }
    MapHandle::from_pinned_path(place.path(MEMORY)).map(Some).map_err(|error| place.wrong("open", MEMORY, error))
}

fn read(cc: &str, place: &Place) -> Result<Vec<(Vec<u8>, Remembered)>, SystemError> {
    let Some(map) = open(place)? else { return Ok(Vec::new()) };
    let now = clock_gettime(ClockId::Monotonic);
    let now_ns = now.tv_sec as u64 * NANOS_PER_S + now.tv_nsec as u64;
    let mut found = Vec::new();
    for key in map.keys() {
        let value = map.lookup(&key, MapFlags::ANY).map_err(|error| place.wrong("read", MEMORY, error))?;
        found.extend(value.and_then(|value| remembered(cc, &key, &value, now_ns)).map(|remembered| (key, remembered)));
    }
    Ok(found)
}

/// Reads `struct path_key` and `struct path_entry` of `algorithms/host/bpf.h`.
fn remembered(cc: &str, key: &[u8], value: &[u8], now_ns: u64) -> Option<Remembered> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(value.get(at..at + 8)?.try_into().ok()?));
    let (family, bits) = (word(key, 0)?, word(key, 4)?);
    let address: [u8; 16] = key.get(8..24)?.try_into().ok()?;
    let [a, b, c, d, ..] = address;
    let to = if family == AF_INET {
        format!("{}/{bits}", Ipv4Addr::new(a, b, c, d))
    } else {
        format!("{}/{bits}", Ipv6Addr::from(address))
    };
    let claimed_ns = long(8)?;
    Some(Remembered {
        cc: cc.to_owned(),
        to,
        window_packets: word(value, 16)?,
        rtt_us: word(value, 20)?,
        age_s: now_ns.saturating_sub(long(0)?) as f64 / NANOS_PER_S as f64,
        is_claimed: claimed_ns > 0 && now_ns.saturating_sub(claimed_ns) < CLAIM_NS,
    })
}

/// Writes what a connection would have saved.
///
/// # Errors
/// If the congestion control of this name remembers nothing, or by prefixes of another length, or the map cannot be
/// written, which needs root.
pub fn remember(cc: &str, to: Prefix, window_packets: u32, rtt_us: u32) -> Result<(), StatusError> {
    let gone = || {
        let reason = format!("`{cc}` is not loaded, or was loaded without --remember; see `perigee cc status`");
        StatusError::Unfit(reason)
    };
    let store = Store::view()?.ok_or_else(gone)?;
    let place = store.places()?.into_iter().find(|(name, _)| name == cc).map(|(_, place)| place).ok_or_else(gone)?;
    let map = open(&place)?.ok_or_else(gone)?;
    let now = clock_gettime(ClockId::Monotonic);
    let (family, bits, network) = to.by_family();
    let [v4, v6] = store.find(cc)?.and_then(|record| record.remembers).ok_or_else(gone)?;
    let length = if family == AF_INET { v4 } else { v6 };
    if bits != length {
        let fix = "write such a one, or load it with another length";
        return Err(StatusError::Unfit(format!("{to}: `{cc}` remembers prefixes of {length} bits; {fix}")));
    }
    let mut key = [family.to_ne_bytes(), u32::from(bits).to_ne_bytes()].concat();
    key.extend(network);
    let saved_ns = now.tv_sec as u64 * NANOS_PER_S + now.tv_nsec as u64;
    let mut value = [saved_ns.to_ne_bytes(), 0_u64.to_ne_bytes()].concat();
    value.extend([window_packets.to_ne_bytes(), rtt_us.to_ne_bytes()].concat());
    map.update(&key, &value, MapFlags::ANY).map_err(|error| place.wrong("write", MEMORY, error))?;
    Ok(())
}

/// Family of IPv4 in a key.
const AF_INET: u32 = 2;
const NANOS_PER_S: u64 = 1_000_000_000;
/// `PATH_CLAIM_NS` of `algorithms/host/bpf.h`.
const CLAIM_NS: u64 = 30 * NANOS_PER_S;
