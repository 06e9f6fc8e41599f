//! Policy rules and routes that give packets with the service's marks to it, before the host's own policy routes.

use std::fs;
use std::io;

use super::tools::{answer, change, execute, DEVICE};
use super::watch::Watch;
use crate::config::{Config, Transparent};
use crate::shared::log::Log;

/// Policy routes: packets with the mark are delivered to this host, those that are held to the device. Each has its mark and table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Routes {
    delivered: (u32, u32),
    held: (u32, u32),
}

impl Routes {
    pub(super) fn of(transparent: &Transparent) -> Self {
        Self {
            delivered: (transparent.mark, transparent.table),
            held: (transparent.hold_mark(), transparent.hold_table()),
        }
    }

    /// Tells when others remove them.
    pub(super) fn watch(self, log: &Log) -> Option<Watch> {
        let refused = |error: &io::Error| log.line(format!("interception is not watched: {error}"));
        let (marks, tables) = ([self.delivered.0, self.held.0], [self.delivered.1, self.held.1]);
        Watch::open(marks, tables).inspect_err(refused).ok()
    }

    /// Commands that add them; those of held packets only if the service uses the device.
    pub(super) fn all_additions(self, config: &Config) -> Vec<String> {
        let mut lines = additions(self.delivered, "local default dev lo");
        if config.uses_device() {
            lines.extend(additions(self.held, &format!("default dev {DEVICE}")));
        }
        lines
    }

    /// Marks and tables that are used, each with a version of IP.
    fn used(self, config: &Config) -> impl Iterator<Item = (&'static str, (u32, u32))> {
        let pairs = [Some(self.delivered), config.uses_device().then_some(self.held)];
        versions().flat_map(move |version| pairs.into_iter().flatten().map(move |pair| (version, pair)))
    }

    /// The pairs of policy rules that lack one, or whose order has changed.
    pub(super) fn incomplete(self, config: &Config) -> Vec<(&'static str, (u32, u32))> {
        let is_lacking = |(version, (mark, _)): &(&str, (u32, u32))| {
            !has_pair(&answer(&format!("ip {version} rule list"), None).unwrap_or_default(), *mark)
        };
        self.used(config).filter(is_lacking).collect()
    }

    /// How many tables lack their route.
    pub(super) fn empty(self, config: &Config) -> usize {
        // A table without routes is not known.
        let is_empty = |(version, (_, table)): &(&str, (u32, u32))| {
            let listed = answer(&format!("ip {version} route show table {table}"), None);
            !listed.is_ok_and(|text| text.contains("default dev "))
        };
        self.used(config).filter(is_empty).count()
    }

    /// Removes what is left of pairs of policy rules: a rule that is added comes after those of its priority.
    pub(super) fn remove_incomplete(self, config: &Config) {
        self.incomplete(config).into_iter().for_each(|(version, pair)| remove_pair(version, pair, change));
    }

    pub(super) fn remove(self) {
        let each = |version| [self.delivered, self.held].map(|(mark, table)| (version, mark, table));
        for (version, mark, table) in versions().flat_map(each) {
            remove_pair(version, (mark, table), execute);
            let _ = execute(&format!("ip {version} route flush table {table}"), None);
        }
    }
}

/// Whether a list of policy rules has both of a mark, that for the main table first.
fn has_pair(listed: &str, mark: u32) -> bool {
    let of_mark = format!(" fwmark {mark:#x} ");
    let own: Vec<&str> = listed.lines().filter(|line| line.contains(&of_mark)).collect();
    matches!(own[..], [first, .., last] if first.contains(" goto ") && last.contains(" lookup "))
}

fn remove_pair(version: &str, (mark, table): (u32, u32), delete: impl Fn(&str, Option<&str>) -> io::Result<()>) {
    for rule in [format!("lookup {table}"), format!("fwmark {mark} goto {MAIN}")] {
        // Each deletes one rule, and fails when none is left.
        for _ in 0..MOST_RULES {
            if delete(&format!("ip {version} rule delete {rule}"), None).is_err() {
                break;
            }
        }
    }
}

/// Commands that route packets with a mark, by a table, before the host's own policy routes. The kernel's check of
/// their source, which may have the mark too (`src_valid_mark`), asks for a route from the loopback device: it gets
/// that of the host.
fn additions((mark, table): (u32, u32), route: &str) -> Vec<String> {
    let each = |version: &str| {
        [
            format!("ip {version} rule add priority {FIRST} fwmark {mark} iif lo goto {MAIN}"),
            format!("ip {version} rule add priority {FIRST} fwmark {mark} lookup {table}"),
            format!("ip {version} route replace {route} table {table}"),
        ]
    };
    versions().flat_map(each).collect()
}

/// Options of `ip` for the versions that the kernel has.
fn versions() -> impl Iterator<Item = &'static str> {
    ["-4", "-6"].into_iter().filter(|version| *version == "-4" || has_ipv6())
}

/// Whether this network namespace has IPv6, which the kernel can lack and a sysctl can disable.
pub(super) fn has_ipv6() -> bool {
    fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6").is_ok_and(|text| text.trim() == "0")
}

/// Priority of the service's rules: after the one for the table `local`, which is the first. Rules that are added later without a
/// priority follow them.
const FIRST: u32 = 0;
/// Priority of the rule for the main routing table.
const MAIN: u32 = 32766;
/// More equal rules than earlier services could have left.
const MOST_RULES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_of_policy_rules_is_whole_in_its_order_only() {
        let (goto, lookup) = ("0:\tfrom all fwmark 0x5 iif lo goto 32766\n", "0:\tfrom all fwmark 0x5 lookup 7065\n");
        assert!(has_pair(&format!("0:\tfrom all lookup local\n{goto}{lookup}"), 5));
        for lacking in [lookup.to_owned() + goto, goto.to_owned(), lookup.to_owned(), String::new()] {
            assert!(!has_pair(&lacking, 5), "{lacking}");
        }
        assert!(!has_pair(&format!("{goto}{lookup}"), 6));
    }
}
