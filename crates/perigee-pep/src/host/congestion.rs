//! Congestion controls that a configuration names and this host's kernel does not have.

use perigee_text::one_line;
use rustix::io::Errno;
use rustix::net::{socket_with, sockopt, AddressFamily, SocketFlags, SocketType};

use super::finding::Finding;
use crate::config::{Config, Leg};

/// Legs for which the kernel has none of the congestion controls that they name. It loads modules for those who may; others see what is
/// loaded.
pub(crate) fn unknown(config: &Config) -> Vec<Finding> {
    let Ok(socket) = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None) else {
        return Vec::new();
    };
    let mut legs: Vec<&Leg> = config.rules.iter().flat_map(|rule| [&rule.client, &rule.server]).collect();
    legs.sort_by_key(|leg| &leg.name);
    legs.dedup_by_key(|leg| &leg.name);
    let is_unknown = |name: &String| sockopt::set_tcp_congestion(&socket, name) == Err(Errno::NOENT);
    legs.retain(|leg| !leg.congestion.is_empty() && leg.congestion.iter().all(is_unknown));
    let finding = |leg: &Leg| {
        let found = format!("leg {}: this kernel has no {}", leg.name, one_line(&leg.congestion.join(" nor ")));
        let fix = "it sends with the default of route or host: load its module, or name one that `sysctl \
                   net.ipv4.tcp_available_congestion_control` shows";
        Finding::new("congestion control", found, fix.to_owned())
    };
    legs.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_is_named_once_if_the_kernel_has_none_of_its_congestion_controls() {
        let text = "[allow]\nsources = [\"10.0.0.0/8\"]\ndestinations = [\"0.0.0.0/0\"]\n[transparent]\n\
                    [legs.local]\n[legs.a]\ncongestion = [\"nobodys\", \"cubic\"]\n[legs.b]\ncongestion = [\"nobodys\", \"noones\"]\n\
                    [[rules]]\nname = \"1\"\nports = [80]\nclient = \"local\"\nserver = \"b\"\n\
                    [[rules]]\nname = \"2\"\nports = [81]\nclient = \"b\"\nserver = \"a\"\n";
        let config = Config::parse(text, "pep.toml", 1).unwrap();
        let found: Vec<String> = unknown(&config).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("congestion control: leg b: this kernel has no nobodys nor noones; it sends with"));
    }
}
