//! The nodes of a study as namespaces: their settings, devices, addresses and routes.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use perigee_study::{FlowSpec, IpVersion, Scenario, Traffic};
use perigee_tcp::{Config, WindowShare};
use perigee_units::Bytes;

use crate::flows::{Carried, IP_AND_TCP};
use crate::namespace::Namespace;
use crate::netlink::{index, Netlink};
use crate::tun::Tun;

/// The nodes and the devices between them.
pub(crate) struct Hosts {
    /// By the node's number.
    pub(crate) namespaces: Vec<Namespace>,
    /// The two ends of each pair of directed links, one after the other.
    pub(crate) devices: Vec<Tun>,
}

/// The address of a node.
pub(crate) fn address(node: u32, ip: IpVersion) -> IpAddr {
    match ip {
        IpVersion::V4 => Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 71, 0, 1)) + node).into(),
        // Unique local (RFC 4193).
        IpVersion::V6 => {
            let first = Ipv6Addr::new(0xfd70, 0x6572, 0x6967, 0x6565, 0, 0, 0, 1);
            Ipv6Addr::from(u128::from(first) + u128::from(node)).into()
        }
    }
}

/// The end of a pair's devices where a directed link begins, and where it ends.
pub(crate) fn ends(link: usize) -> (usize, usize) {
    let (pair, back) = (link / 2, link % 2);
    (2 * pair + back, 2 * pair + 1 - back)
}

impl Hosts {
    /// Makes all of it; `mtu` is the largest packet.
    pub(crate) fn new(scenario: &Scenario, settings: &[Config], mtu: u32) -> io::Result<Self> {
        let namespaces = scenario.nodes.iter().map(|_| Namespace::new()).collect::<io::Result<Vec<_>>>()?;
        let has_v6 = scenario.flows.iter().any(|flow| flow.ip == IpVersion::V6);
        for (namespace, config) in namespaces.iter().zip(settings) {
            namespace.enter(|| set(config).and(quiet(has_v6)))?;
        }
        let mut devices = Vec::with_capacity(scenario.links.len());
        for (number, pair) in scenario.links.chunks(2).enumerate() {
            // Not the link's name: the kernel has devices and settings called `lo`, `all`, `default`, and cuts after 15 letters.
            let name = format!("link{number}");
            for node in [pair[0].from, pair[0].to] {
                let mtu = pair[0].mtu.map_or(mtu, |own| mtu.min(u32::from(own)));
                devices.push(namespaces[node as usize].enter(|| device(&name, mtu))?);
            }
        }
        let hosts = Self { namespaces, devices };
        for (node, config) in (0..).zip(settings) {
            hosts.namespaces[node as usize]
                .enter(|| hosts.address_and_routes(scenario, node, config.initial_window))?;
        }
        Ok(hosts)
    }

    /// A node has an address of each version, on its loopback device, and a route for each other node.
    fn address_and_routes(&self, scenario: &Scenario, node: u32, initial_window: u32) -> io::Result<()> {
        let mut netlink = Netlink::new()?;
        for (ip, bits) in [(IpVersion::V4, 32), (IpVersion::V6, 128)] {
            if !scenario.flows.iter().any(|flow| flow.ip == ip) {
                continue;
            }
            let own = address(node, ip);
            netlink.address(index("lo")?, (own, bits))?;
            for other in 0..scenario.nodes.len() as u32 {
                let Some(link) = scenario.next_hop(node, other) else { continue };
                let mtu = scenario.links[link as usize].mtu.map_or(u32::MAX, u32::from);
                if ip == IpVersion::V6 && mtu < LEAST_OF_V6 {
                    continue;
                }
                let device = &self.devices[ends(link as usize).0];
                let window = (initial_window != LINUX_INITIAL_WINDOW).then_some(initial_window);
                netlink.route(index(device.name())?, (address(other, ip), bits), own, window)?;
            }
        }
        Ok(())
    }
}

fn device(name: &str, mtu: u32) -> io::Result<Tun> {
    let tun = Tun::new(name)?;
    Netlink::new()?.up(index(tun.name())?, Some((mtu, QUEUE)))?;
    Ok(tun)
}

/// The settings of each node: those of the flows that end there, which must be the same; and the size of packets.
pub(crate) fn settings(scenario: &Scenario) -> Result<(Vec<Config>, u32), String> {
    let mut found: Vec<Option<(&Config, &FlowSpec)>> = vec![None; scenario.nodes.len()];
    for flow in &scenario.flows {
        let Traffic::Tcp { tcp, .. } = &flow.traffic else { continue };
        for (node, config) in [(flow.from, &tcp.from), (flow.to, &tcp.to)] {
            match found[node as usize] {
                Some((other, first)) if other != config => {
                    let name = &scenario.nodes[node as usize];
                    return Err(format!(
                        "flows `{}` and `{}` have different TCP settings at `{name}`, which the kernel has per host; \
                         give them the same, or nodes of their own",
                        first.name, flow.name
                    ));
                }
                _ => found[node as usize] = Some((config, flow)),
            }
        }
    }
    let configs: Vec<_> = found.iter().map(|f| f.map_or_else(Config::default, |(config, _)| config.clone())).collect();
    for (config, name) in configs.iter().zip(&scenario.nodes) {
        if let Some(what) = impossible(config) {
            return Err(format!("at `{name}`: {what}, which the kernel cannot; run it with --engine sim"));
        }
    }
    let segments = configs.iter().map(|config| u32::from(config.mss) + IP_AND_TCP);
    let packets = scenario.flows.iter().filter_map(|flow| match Carried::of(&flow.traffic) {
        Carried::Packets(_, packet) => Some(packet.as_u64() as u32),
        Carried::Connection(..) => None,
    });
    let least = scenario.flows.iter().filter(|flow| flow.ip == IpVersion::V6).map(|_| LEAST_OF_V6);
    let mtu = segments.chain(packets).chain(least).max().unwrap_or(1500);
    Ok((configs, mtu))
}

/// What of a configuration Linux has no setting for.
fn impossible(config: &Config) -> Option<&'static str> {
    let usual = Config::default();
    let checks = [
        (config.prr == usual.prr, "`prr` is off"),
        (config.delayed_acks == usual.delayed_acks, "`delayed_acks` is off"),
        (config.quick_acks == usual.quick_acks, "`quick_acks` is off"),
        (config.delayed_ack_max == usual.delayed_ack_max, "`delayed_ack_max` is set"),
        (config.cwnd_clamp == usual.cwnd_clamp, "`cwnd_clamp` is set"),
        (config.rto_max == usual.rto_max, "`rto_max` is set"),
    ];
    checks.into_iter().find(|(same, _)| !same).map(|(_, what)| what)
}

/// Writes a node's settings, in its namespace.
fn set(config: &Config) -> io::Result<()> {
    let three = |buffers: &[Bytes; 3]| buffers.map(|bytes| bytes.as_u64().to_string()).join(" ");
    let switch = |on: bool, value: u32| if on { value } else { 0 }.to_string();
    let usual = Config::default();
    write("tcp_rmem", &three(&receive_buffer(config)))?;
    write("tcp_wmem", &three(&config.wmem))?;
    write("tcp_no_metrics_save", "1")?;
    for (key, value, same) in [
        ("tcp_moderate_rcvbuf", switch(config.receive_autotuning, 1), config.receive_autotuning),
        ("tcp_timestamps", switch(config.timestamps, 1), config.timestamps),
        ("tcp_window_scaling", switch(config.window_scaling, 1), config.window_scaling),
        ("tcp_sack", switch(config.sack, 1), config.sack),
        ("tcp_dsack", switch(config.dsack, 1), config.dsack),
        ("tcp_recovery", switch(config.rack, 1), config.rack),
        ("tcp_early_retrans", switch(config.tlp, 3), config.tlp),
        ("tcp_frto", switch(config.frto, 2), config.frto),
        ("tcp_slow_start_after_idle", switch(config.slow_start_after_idle, 1), config.slow_start_after_idle),
        ("tcp_comp_sack_nr", switch(config.ack_compression, 44), config.ack_compression),
        ("tcp_reordering", config.reordering.to_string(), config.reordering == usual.reordering),
        ("tcp_syn_retries", config.syn_retries.to_string(), config.syn_retries == usual.syn_retries),
        ("tcp_synack_retries", config.synack_retries.to_string(), config.synack_retries == usual.synack_retries),
        ("tcp_retries2", config.retries2.to_string(), config.retries2 == usual.retries2),
        // Linux has had 4 by itself since 6.5.
        ("tcp_syn_linear_timeouts", config.syn_linear_timeouts.to_string(), !has("tcp_syn_linear_timeouts")),
        ("tcp_ecn", switch(config.ecn, 1), !config.ecn),
        ("tcp_rto_min_us", config.rto_min.as_micros().to_string(), config.rto_min == usual.rto_min),
    ] {
        // What is as in a new namespace is left alone: an older kernel may not have it.
        if !same {
            write(key, &value)?;
        }
    }
    Ok(())
}

/// Has devices that will be made say nothing by themselves: every packet on a link is a flow's.
fn quiet(has_v6: bool) -> io::Result<()> {
    let conf = "/proc/sys/net/ipv6/conf";
    let done = if has_v6 {
        // Without addresses of their own, devices ask nobody for anything; those that do not route join no group of routers,
        // and tell nobody of it. The host routes all the same: that is another setting.
        fs::write(format!("{conf}/default/addr_gen_mode"), "1")
            .and_then(|()| fs::write(format!("{conf}/default/forwarding"), "0"))
    } else {
        fs::write(format!("{conf}/all/disable_ipv6"), "1")
    };
    match done {
        // A kernel without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !has_v6 => Ok(()),
        done => done,
    }
}

/// The receive buffer by which this kernel's window ends where the configured host's would: what part of a buffer is window
/// depends on the kernel, and on the memory that drivers take for a segment ([`Config::largest_window`]).
fn receive_buffer(config: &Config) -> [Bytes; 3] {
    let [least, initial, largest] = config.rmem;
    let window_share = if measures_share() { WindowShare::Measured } else { WindowShare::Half };
    let here = Config { segment_memory: HERE, window_share, ..config.clone() };
    let window = u128::from(config.largest_window().as_u64()) * u128::from(largest.as_u64());
    let buffer = window / u128::from(here.largest_window().as_u64().max(1));
    [least, initial, Bytes::new(u64::try_from(buffer).unwrap_or(u64::MAX)).max(initial)]
}

/// Whether this kernel takes the share of the window from the segments it receives, as Linux 6.6 and later.
fn measures_share() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 6)
}

fn has(key: &str) -> bool {
    Path::new("/proc/sys/net/ipv4").join(key).exists()
}

fn write(key: &str, value: &str) -> io::Result<()> {
    let with_key = |error: io::Error| io::Error::new(error.kind(), format!("net.ipv4.{key} = {value}: {error}"));
    fs::write(format!("/proc/sys/net/ipv4/{key}"), value).map_err(with_key)
}

/// Memory of a full segment that comes from a TUN device.
const HERE: Bytes = Bytes::new(2304);
/// Packets that the kernel keeps for a driver that is busy.
const QUEUE: u32 = 10_000;
const LINUX_INITIAL_WINDOW: u32 = 10;
/// What each link carries at the least (RFC 8200, section 5).
const LEAST_OF_V6: u32 = 1280;
