//! Kinds of this configuration only: networks, addresses, ports, and names that the kernel knows.

use std::net::SocketAddr;

use perigee_text::{text_of, Content, Kind, Node, Read, Special, StrictError};

use super::network::Network;
use super::{Ports, TunnelControl};

pub(super) const NETWORKS: Kind = Kind::Special(&Special::of::<Vec<Network>>("networks"));
pub(super) const SOME_NETWORKS: Kind =
    Kind::Special(&Special { check: some_networks, ..Special::of::<Network>("networks") });
pub(super) const ADDRESS: Kind = Kind::Special(&Special::of::<Address>("address with port"));
pub(super) const PORTS: Kind = Kind::Special(&Special::of::<Vec<Ports>>("ports, ranges"));
pub(super) const PATH: Kind = Kind::Special(&Special::of::<String>("path"));
pub(super) const LEG_NAME: Kind = Kind::Special(&Special::of::<String>("name of a leg"));
pub(super) const INTERFACES: Kind = Kind::Special(&Special { check: interfaces, ..Special::of::<String>("names") });
pub(super) const CODE_POINTS: Kind =
    Kind::Special(&Special { check: code_points, ..Special::of::<u16>("numbers, 0 to 63") });
pub(super) const CONGESTION_CONTROLS: Kind =
    Kind::Special(&Special { check: congestion_controls, ..Special::of::<String>("name, or several") });
pub(super) const TUNNEL_CONTROL: Kind = Kind::Special(&Special::of::<TunnelControl>("name of an algorithm, or fixed"));

/// An address with a port above zero.
pub(super) struct Address(pub(super) SocketAddr);

impl Read for Address {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        let text = String::read(node, what)?;
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() > 0 => Ok(Self(address)),
            _ => {
                let message = format!("`{text}` is not an address with a port");
                Err(StrictError::new(&node.origin, message, "write `\"192.0.2.1:8080\"`"))
            }
        }
    }
}

impl Read for Network {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        let error = |message| StrictError::new(&node.origin, message, "write `[\"192.0.2.0/24\", \"2001:db8::/32\"]`");
        String::read(node, what)?.parse().map_err(error)
    }
}

/// A port, or a range of them: `"8000-8100"`.
impl Read for Ports {
    fn read(node: &Node, _: &str) -> Result<Self, StrictError> {
        let ports = match &node.content {
            Content::Integer(port) => u16::try_from(*port).ok().map(|port| Self(port, port)),
            Content::Text(range) => range
                .split_once('-')
                .and_then(|(first, last)| Some(Self(first.trim().parse().ok()?, last.trim().parse().ok()?))),
            _ => None,
        };
        ports.filter(|ports| 0 < ports.0 && ports.0 <= ports.1).ok_or_else(|| {
            let fix = "write `ports = [80, 443, \"8000-8100\"]`";
            StrictError::new(&node.origin, "`ports` has what is not a port", fix)
        })
    }
}

fn some_networks(node: &Node, what: &str) -> Result<(), StrictError> {
    if Vec::<Network>::read(node, what)?.is_empty() {
        return Err(StrictError::new(&node.origin, format!("`{what}` is empty"), "name a network"));
    }
    Ok(())
}

fn code_points(node: &Node, what: &str) -> Result<(), StrictError> {
    match Vec::<u16>::read(node, what)?.iter().find(|point| **point > 63) {
        Some(point) => {
            Err(StrictError::new(&node.origin, format!("{point} is not a code point"), "use numbers from 0 to 63"))
        }
        None => Ok(()),
    }
}

/// Names of interfaces become part of firewall rules.
fn interfaces(node: &Node, what: &str) -> Result<(), StrictError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    known_to_the_kernel(node, &Vec::read(node, what)?, is_allowed, "an interface", "use names that `ip link` shows")
}

fn congestion_controls(node: &Node, what: &str) -> Result<(), StrictError> {
    let fix = "use a name that `perigee cc status` or `sysctl net.ipv4.tcp_available_congestion_control` shows";
    let names = one_or_several(node, what)?;
    known_to_the_kernel(node, &names, |c| c.is_ascii_graphic(), "a congestion control", fix)
}

/// One text, or a list of them.
pub(super) fn one_or_several(node: &Node, what: &str) -> Result<Vec<String>, StrictError> {
    match text_of(node) {
        Some(name) => Ok(vec![name.to_owned()]),
        None => Vec::read(node, what),
    }
}

/// Names that the kernel keeps in 16 bytes.
fn known_to_the_kernel(
    node: &Node,
    names: &[String],
    is_allowed: impl Fn(char) -> bool,
    of: &str,
    fix: &str,
) -> Result<(), StrictError> {
    let is_name = |name: &str| (1..=15).contains(&name.len()) && name.chars().all(&is_allowed);
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(StrictError::new(&node.origin, format!("`{name}` cannot be the name of {of}"), fix)),
        None => Ok(()),
    }
}
