//! Kinds of this configuration only: networks, addresses, ports, and names that the kernel knows.

use std::net::SocketAddr;

use perigee_text::{text_of, Content, Kind, Node, Read, Special, StrictError};

use perigee_units::Rate;

use super::link::SatelliteLink;
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

pub(super) const INTERFACE: Kind = Kind::Special(&Special { check: interface, ..Special::of::<String>("name") });
pub(super) const COMMAND: Kind = Kind::Special(&Special::of::<Words>("a program and its words"));
pub(super) const URL: Kind = Kind::Special(&Special::of::<Url>("plain HTTP address"));
pub(super) const LINK_RATE: Kind =
    Kind::Special(&Special { check: link_rate, ..Special::of::<Rate>("rate from 64 kbit/s to 400 Gbit/s") });
pub(super) const DAY_TIME: Kind = Kind::Special(&Special::of::<DayTime>("time of the day"));

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

/// A time of the day, seconds since midnight.
pub(super) struct DayTime(pub(super) u64);

impl Read for DayTime {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        let text = String::read(node, what)?;
        let parts = text.split_once(':').and_then(|(hours, minutes)| {
            let [hours, minutes] = [hours, minutes].map(|part| part.parse::<u64>().ok().filter(|_| part.len() == 2));
            Some((hours.filter(|hours| *hours < 24)?, minutes.filter(|minutes| *minutes < 60)?))
        });
        let (hours, minutes) = parts.ok_or_else(|| {
            StrictError::new(&node.origin, format!("`{text}` is not a time of the day"), "write `\"06:30\"`, in UTC")
        })?;
        Ok(Self(hours * 3600 + minutes * 60))
    }
}

/// The address and the path of a plain HTTP URL.
pub(super) struct Url(pub(super) SocketAddr, pub(super) String);

impl Read for Url {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        let text = String::read(node, what)?;
        let parts = text.strip_prefix("http://").and_then(|rest| {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let address: SocketAddr = host.parse().or_else(|_| format!("{host}:80").parse()).ok()?;
            let path = if path.is_empty() { "/" } else { path };
            let is_one = address.port() > 0 && path.bytes().all(|byte| byte.is_ascii_graphic());
            is_one.then(|| Self(address, path.to_owned()))
        });
        parts.ok_or_else(|| {
            let message = format!("`{text}` is not a plain HTTP address");
            StrictError::new(&node.origin, message, "write `\"http://192.168.100.1/rate\"`, with an IP address")
        })
    }
}

/// The words of a command, the first of which is the path of a program.
struct Words;

impl Read for Words {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        let words = Vec::<String>::read(node, what)?;
        if matches!(node.content, Content::Array(_)) && words.first().is_some_and(|word| word.starts_with('/')) {
            return Ok(Self);
        }
        let message = format!("`{what}` does not begin with the whole path of a program");
        Err(StrictError::new(&node.origin, message, "write `[\"/usr/local/bin/modem-rate\"]`"))
    }
}

/// A rate that a satellite link may have, and to which connections can be held.
fn link_rate(node: &Node, what: &str) -> Result<(), StrictError> {
    let rate = Rate::read(node, what)?;
    if SatelliteLink::RATES.contains(&rate) {
        return Ok(());
    }
    let (least, most) = (SatelliteLink::RATES.start(), SatelliteLink::RATES.end());
    let message = format!("`{what}` = {rate} is out of range");
    Err(StrictError::new(&node.origin, message, format!("use a value from {least} to {most}")))
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

fn interfaces(node: &Node, what: &str) -> Result<(), StrictError> {
    named_as_interfaces(node, &Vec::read(node, what)?)
}

fn interface(node: &Node, what: &str) -> Result<(), StrictError> {
    named_as_interfaces(node, &[String::read(node, what)?])
}

/// Names of interfaces become part of firewall rules.
fn named_as_interfaces(node: &Node, names: &[String]) -> Result<(), StrictError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    known_to_the_kernel(node, names, is_allowed, "an interface", "use names that `ip link` shows")
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
