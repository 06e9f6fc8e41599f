//! The TCP settings of a run's nodes, and those that this kernel cannot apply.

use std::collections::BTreeMap;
use std::path::Path;

use perigee_settings::{Config, Kernel, Value};
use perigee_study::{FlowSpec, Scenario, Traffic};
use perigee_units::Time;

use crate::run::proxies;
use crate::run::sockets::IP_AND_TCP;

/// The TCP settings of a run's nodes.
#[derive(Debug)]
pub(crate) struct HostSettings {
    /// The configurations, indexed by node.
    pub(crate) configs: Vec<Config>,
    /// The largest packet.
    pub(crate) mtu: u32,
    /// Initial windows of nodes by link, which may differ at a proxy.
    pub(crate) windows: BTreeMap<(u32, u32), u32>,
}

/// The settings of each node, from the connections that end there, which must agree but for the initial windows of a proxy.
pub(crate) fn settings(scenario: &Scenario) -> Result<HostSettings, String> {
    if let Some(what) = proxies::impossible(scenario) {
        return Err(what);
    }
    let mut found: Vec<Option<(Config, &FlowSpec)>> = vec![None; scenario.nodes.len()];
    let mut windows: BTreeMap<(u32, u32), (u32, &FlowSpec)> = BTreeMap::new();
    for flow in &scenario.flows {
        for (node, link, config) in tcp_ends(flow) {
            let is_proxy = scenario.proxies.iter().any(|proxy| proxy.node == node);
            // A proxy's initial windows are those of its routes.
            let usual = if is_proxy { Config::default().initial_window } else { config.initial_window };
            let own = Config { initial_window: usual, ..config.clone() };
            let (window, of_window) = *windows.entry((node, link)).or_insert((config.initial_window, flow));
            let (other, of_config) = found[node as usize].get_or_insert_with(|| (own.clone(), flow));
            let differs =
                if *other == own { (window != config.initial_window).then_some(of_window) } else { Some(*of_config) };
            if let Some(first) = differs {
                return Err(format!(
                    "flows `{}` and `{}` have different TCP settings at `{}`, which the kernel has per host; \
                     give them the same, or nodes of their own",
                    first.name, flow.name, scenario.nodes[node as usize]
                ));
            }
        }
    }
    let configs: Vec<_> = found.into_iter().map(|found| found.map_or_else(Config::default, |(own, _)| own)).collect();
    let kernel_tick = Time::from_micros(perigee_bpf::tick_us());
    let of_datagrams = |node: usize| Config { processing_time: scenario.processing[node], ..Config::default() };
    let datagrams = senders_of_datagrams(scenario).map(|node| (node as usize, of_datagrams(node as usize)));
    for (node, config) in configs.iter().cloned().enumerate().chain(datagrams) {
        if let Some(what) = impossible(&config, has).or_else(|| another_tick(&config, kernel_tick)) {
            return Err(format!("at `{}`: {what}; run it with --engine sim", scenario.nodes[node]));
        }
    }
    let segments = configs.iter().map(|config| u32::from(config.mss) + IP_AND_TCP);
    let packets = scenario.flows.iter().filter_map(|flow| match &flow.traffic {
        Traffic::Datagrams(datagrams) => Some(datagrams.largest_packet().as_u64() as u32),
        Traffic::Quic { quic, .. } => Some(u32::from(flow.ip.header_bytes() + UDP_HEADER + quic.datagram)),
        Traffic::Tcp { .. } | Traffic::Population { .. } => None,
    });
    let least = scenario.flows.iter().map(|flow| u32::from(flow.ip.least_mtu()));
    let mtu = segments.chain(packets).chain(least).max().unwrap_or(1500);
    let windows = windows.into_iter().map(|(place, (window, _))| (place, window)).collect();
    Ok(HostSettings { configs, mtu, windows })
}

/// The ends of a flow's TCP connections: node, link over which it sends, settings.
pub(crate) fn tcp_ends(flow: &FlowSpec) -> Vec<(u32, u32, &Config)> {
    let Some(tcp) = flow.traffic.tcp() else { return Vec::new() };
    let legs = tcp.legs.iter().flat_map(|leg| {
        let sender = (leg.from, leg.forward.first(), &leg.sender.config);
        [sender, (leg.to, leg.back.first(), &leg.receiver.config)]
    });
    let whole = [(flow.from, flow.forward.first(), &tcp.from), (flow.to, flow.back.first(), &tcp.to)];
    let all = legs.chain(whole.into_iter().filter(|_| tcp.legs.is_empty()));
    all.filter_map(|(node, link, config)| Some((node, *link?, config))).collect()
}

/// The nodes that send datagrams, or answers to them.
fn senders_of_datagrams(scenario: &Scenario) -> impl Iterator<Item = u32> + '_ {
    scenario.flows.iter().flat_map(|flow| match &flow.traffic {
        Traffic::Datagrams(datagrams) if datagrams.is_answered() => vec![flow.from, flow.to],
        Traffic::Quic { .. } => vec![flow.from, flow.to],
        Traffic::Datagrams(_) => vec![flow.from],
        Traffic::Tcp { .. } | Traffic::Population { .. } => Vec::new(),
    })
}

/// Settings of a configuration that this kernel, with the sysctls that `has` knows, cannot apply.
fn impossible(config: &Config, has: impl Fn(&str) -> bool) -> Option<String> {
    config.differences().find_map(|(setting, value)| {
        let is = match value {
            Value::Switch(true) => "on",
            Value::Switch(false) => "off",
            _ => "set",
        };
        let why = match setting.kernel {
            Kernel::Nothing => "which the kernel cannot".to_owned(),
            Kernel::Sysctl(sysctl) if !has(sysctl.name) => {
                format!("and this kernel has no `net.ipv4.{}`", sysctl.name)
            }
            Kernel::Sysctl(_) | Kernel::Other(_) => return None,
        };
        Some(format!("`{}` is {is}, {why}", setting.name))
    })
}

/// A tick that is not the kernel's, which it has from when it was built.
fn another_tick(config: &Config, kernel: Time) -> Option<String> {
    let differs = config.tick > Time::ZERO && config.tick.as_micros() != kernel.as_micros();
    differs.then(|| format!("`tick` is {}, and this kernel's is {kernel}", config.tick))
}

/// Bytes.
const UDP_HEADER: u16 = 8;

/// Whether this kernel has a sysctl of `net.ipv4`.
pub(crate) fn has(key: &str) -> bool {
    Path::new("/proc/sys/net/ipv4").join(key).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_has_no_setting_for_is_refused_by_name() {
        let refusal = |config: Config, has: bool| impossible(&config, |_| has);
        assert_eq!(refusal(Config::default(), false), None);
        let config = Config { prr: false, ..Config::default() };
        assert_eq!(refusal(config, true).as_deref(), Some("`prr` is off, which the kernel cannot"));
        let config = Config { syn_linear_timeouts: 3, ..Config::default() };
        assert_eq!(refusal(config.clone(), true), None);
        let message = "`syn_linear_timeouts` is set, and this kernel has no `net.ipv4.tcp_syn_linear_timeouts`";
        assert_eq!(refusal(config, false).as_deref(), Some(message));
    }

    #[test]
    fn a_tick_is_that_of_the_kernel_or_refused() {
        let refusal = |ms| {
            let config = Config { tick: Time::from_millis(ms), ..Config::default() };
            impossible(&config, |_| true).or_else(|| another_tick(&config, Time::from_millis(4)))
        };
        assert_eq!([refusal(0), refusal(4)], [None, None]);
        assert_eq!(refusal(10).as_deref(), Some("`tick` is 10 ms, and this kernel's is 4 ms"));
    }
}
