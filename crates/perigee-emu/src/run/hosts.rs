//! The nodes of a study as namespaces: their settings, devices, addresses and routes.

use std::fs;
use std::io;
use std::path::Path;

use perigee_settings::{Config, Kernel, WindowShare, SETTINGS};
use perigee_study::{IpVersion, Scenario};
use perigee_units::Bytes;
use perigee_wire::address;

use crate::os::namespace::Namespace;
use crate::os::netlink::{await_local, index, Netlink};
use crate::os::tun::device_of;
use crate::os::tun::{Tun, QUEUE_PACKETS};
use crate::run::routes::{Routes, ADDRESSES};
use crate::run::settings::{has, tcp_ends};

/// The nodes' namespaces and the devices between them.
pub(crate) struct Hosts {
    /// The namespaces, indexed by node number.
    pub(crate) namespaces: Vec<Namespace>,
    /// Both ends of each pair of directed links, in order.
    pub(crate) devices: Vec<Tun>,
}

/// A node's sysctls, read back from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSysctls {
    /// The node.
    pub node: String,
    /// Names in `net.ipv4`, and their texts.
    pub values: Vec<(&'static str, String)>,
}

/// The ends of a pair's devices where a directed link starts and where it ends.
pub(crate) fn ends(link: usize) -> (usize, usize) {
    let (pair, back) = (link / 2, link % 2);
    (2 * pair + back, 2 * pair + 1 - back)
}

impl Hosts {
    /// Creates everything; `mtu` is the largest packet.
    pub(crate) fn new(scenario: &Scenario, settings: &[Config], routes: &Routes<'_>, mtu: u32) -> io::Result<Self> {
        let namespaces = scenario.nodes.iter().map(|_| Namespace::new()).collect::<io::Result<Vec<_>>>()?;
        let has_v6 = scenario.flows.iter().any(|flow| flow.ip == IpVersion::V6);
        for (namespace, config) in namespaces.iter().zip(settings) {
            namespace.enter(|| set(config).and(quiet(has_v6)))?;
        }
        // The log of TCP has a record for what the kernel hands to the device, and is one of segments.
        let offload = !scenario.measure.events;
        let mut devices = Vec::with_capacity(scenario.links.len());
        for (number, pair) in scenario.links.chunks(2).enumerate() {
            let name = device_of(2 * number);
            for node in [pair[0].from, pair[0].to] {
                let mtu = pair[0].mtu.map_or(mtu, |own| mtu.min(u32::from(own)));
                devices.push(namespaces[node as usize].enter(|| device(&name, mtu, offload))?);
            }
        }
        for (node, namespace) in (0..).zip(&namespaces) {
            namespace.enter(|| address_and_routes(scenario, routes, node))?;
        }
        Ok(Self { namespaces, devices })
    }
}

/// Adds a node's addresses to its loopback device, and a route to each other node; called in its namespace.
fn address_and_routes(scenario: &Scenario, routes: &Routes<'_>, node: u32) -> io::Result<()> {
    let mut netlink = Netlink::new()?;
    for (ip, bits) in ADDRESSES {
        if scenario.flows.iter().any(|flow| flow.ip == ip) {
            let own = address(node, ip);
            netlink.address(index("lo")?, (own, bits))?;
            await_local(own)?;
        }
    }
    routes.add(&mut netlink, node)
}

fn device(name: &str, mtu: u32, offload: bool) -> io::Result<Tun> {
    let tun = Tun::new(name, offload)?;
    Netlink::new()?.up(index(tun.name())?, Some((mtu, QUEUE_PACKETS)))?;
    Ok(tun)
}

/// The sysctls of the nodes where TCP flows end, for a run of this scenario: written in namespaces of their own, and read
/// back.
pub(crate) fn sysctls_of_nodes(scenario: &Scenario, settings: &[Config]) -> io::Result<Vec<HostSysctls>> {
    let has_tcp = |node: usize| scenario.flows.iter().flat_map(tcp_ends).any(|(end, ..)| end as usize == node);
    let nodes = scenario.nodes.iter().zip(settings).enumerate().filter(|&(node, _)| has_tcp(node));
    let hosts = nodes.map(|(_, (name, config))| {
        let values = Namespace::new()?.enter(|| set(config).map(|()| in_effect()))?;
        Ok(HostSysctls { node: name.to_string(), values })
    });
    hosts.collect()
}

/// The sysctls of TCP settings in the calling thread's namespace, as far as this kernel has them.
fn in_effect() -> Vec<(&'static str, String)> {
    let known = SETTINGS.iter().filter_map(|setting| match setting.kernel {
        Kernel::Sysctl(sysctl) => {
            let text = fs::read_to_string(Path::new("/proc/sys/net/ipv4").join(sysctl.name)).ok()?;
            Some((sysctl.name, text.trim().to_owned()))
        }
        Kernel::Other(_) | Kernel::Nothing => None,
    });
    known.collect()
}

/// Writes a node's sysctls, in its namespace.
fn set(config: &Config) -> io::Result<()> {
    write("tcp_no_metrics_save", "1")?;
    let here = Config { rmem: receive_buffer(config), ..config.clone() };
    for (name, text) in sysctls(&here, has) {
        write(name, &text)?;
    }
    Ok(())
}

/// The sysctls that a new namespace needs, with their values.
///
/// Values that are defaults of a new namespace are not written: an older kernel may lack the sysctl.
fn sysctls(config: &Config, has: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
    let usual = Config::default();
    let needed = SETTINGS.iter().filter_map(|setting| {
        let Kernel::Sysctl(sysctl) = setting.kernel else { return None };
        let value = setting.get(config);
        let is_there = value == setting.get(&usual) && (sysctl.has_default || !has(sysctl.name));
        (!is_there).then(|| (sysctl.name, sysctl.text(value)))
    });
    needed.collect()
}

/// Silences devices: every packet on a link belongs to a flow.
fn quiet(has_v6: bool) -> io::Result<()> {
    let conf = "/proc/sys/net/ipv6/conf";
    let done = if has_v6 {
        // Devices without addresses send no neighbour solicitations; those that do not forward join no multicast group
        // of routers and send no reports. The host itself still forwards, by another setting.
        fs::write(format!("{conf}/default/addr_gen_mode"), "1")
            .and_then(|()| fs::write(format!("{conf}/default/forwarding"), "0"))
    } else {
        fs::write(format!("{conf}/all/disable_ipv6"), "1")
    };
    match done {
        // The kernel has no IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !has_v6 => Ok(()),
        done => done,
    }
}

/// The receive buffer with which this kernel's window ends where the configured host's would: the window's share of a
/// buffer depends on the kernel, and on the memory that drivers take for a segment ([`Config::largest_window`]).
fn receive_buffer(config: &Config) -> [Bytes; 3] {
    let [least, initial, largest] = config.rmem;
    let window_share = if measures_share() { WindowShare::Measured } else { WindowShare::Half };
    let here = Config { segment_memory: HERE, window_share, ..config.clone() };
    let window = u128::from(config.largest_window().as_u64()) * u128::from(largest.as_u64());
    let buffer = window / u128::from(here.largest_window().as_u64().max(1));
    [least, initial, Bytes::new(u64::try_from(buffer).unwrap_or(u64::MAX)).max(initial)]
}

/// Whether this kernel derives the window's share from received segments, as Linux 6.6 and later.
fn measures_share() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 6)
}

fn write(key: &str, value: &str) -> io::Result<()> {
    let with_key = |error: io::Error| io::Error::new(error.kind(), format!("net.ipv4.{key} = {value}: {error}"));
    fs::write(format!("/proc/sys/net/ipv4/{key}"), value).map_err(with_key)
}

/// Memory of a full segment received from a TUN device.
const HERE: Bytes = Bytes::new(2304);

#[cfg(test)]
mod tests {
    use perigee_settings::Value;

    use super::*;

    /// A valid value other than `default`.
    fn another(default: Value) -> Value {
        match default {
            Value::Switch(on) => Value::Switch(!on),
            Value::Count(count) => Value::Count(count + 1),
            Value::Duration(time) => Value::Duration(time + time),
            Value::Size(size) => Value::Size(size + size),
            Value::Sizes(sizes) => Value::Sizes(sizes.map(|size| size + size)),
            Value::Choice(_) => panic!("no sysctl takes a word"),
        }
    }

    #[test]
    fn every_sysctl_is_in_this_kernel_and_takes_what_its_setting_is_set_to() {
        let namespace = match Namespace::new() {
            Ok(namespace) => namespace,
            Err(error) => return println!("skipped: no network namespace: {error}"),
        };
        for setting in SETTINGS {
            let Kernel::Sysctl(sysctl) = setting.kernel else { continue };
            if !has(sysctl.name) {
                println!("skipped: this kernel has no net.ipv4.{}", sysctl.name);
                continue;
            }
            let read = || fs::read_to_string(format!("/proc/sys/net/ipv4/{}", sysctl.name));
            let usual = setting.get(&Config::default());
            let value = another(usual);
            let (before, after) = namespace
                .enter(|| Ok((read()?, write(sysctl.name, &sysctl.text(value)).and_then(|()| read())?)))
                .unwrap_or_else(|error| panic!("{error}"));
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&after), words(&sysctl.text(value)), "{}", setting.name);
            // The default in a new namespace: ECN if the client asks for it.
            if sysctl.has_default && setting.name != "ecn" {
                assert_eq!(words(&before), words(&sysctl.text(usual)), "{} in a new namespace", setting.name);
            }
        }
    }

    #[test]
    fn a_new_namespace_is_told_only_what_it_may_not_have() {
        let names = |config: &Config, has: bool| -> Vec<_> {
            sysctls(config, |_| has).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(&Config::default(), true), ["tcp_rmem", "tcp_wmem", "tcp_syn_linear_timeouts"]);
    }
}
