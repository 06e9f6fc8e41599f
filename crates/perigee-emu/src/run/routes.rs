//! Routes of the nodes' kernels: those at the start of a run, and changes during it.

use std::io;
use std::sync::atomic::AtomicBool;

use perigee_settings::Config;
use perigee_study::{IpVersion, RouteChange, Scenario, Waiting};
use perigee_wire::address;

use crate::link::driver::QueueChange;
use crate::os::clock::RunClock;
use crate::os::namespace::Namespace;
use crate::os::netlink::{index, Netlink, Place};
use crate::os::tun::device_of;
use crate::run::settings::HostSettings;

/// The routes of a run.
#[derive(Debug)]
pub(crate) struct Routes<'a> {
    scenario: &'a Scenario,
    settings: &'a HostSettings,
    changes: Vec<RouteChange>,
}

impl<'a> Routes<'a> {
    pub(crate) fn new(scenario: &'a Scenario, settings: &'a HostSettings, seed: u64) -> Self {
        Self { scenario, settings, changes: scenario.route_changes(seed) }
    }

    /// Adds the initial routes of a node; called in its namespace.
    pub(crate) fn add(&self, netlink: &mut Netlink, node: u32) -> io::Result<()> {
        for to in 0..self.scenario.nodes.len() as u32 {
            let changed = self.changes.iter().find(|change| (change.node, change.to) == (node, to));
            let changed = changed.filter(|change| change.at.as_nanos() == 0).map(|change| change.link);
            if let Some(link) = changed.or_else(|| self.scenario.next_hop(node, to)) {
                self.set(netlink, (node, to, link), Place::New)?;
            }
        }
        Ok(())
    }

    /// Changes the routes at their times, until all have changed or the run is stopped.
    pub(crate) fn follow(&self, namespaces: &[Namespace], clock: RunClock, stop: &AtomicBool) -> io::Result<()> {
        for RouteChange { at, node, to, link, .. } in self.changes.iter().filter(|change| change.at.as_nanos() > 0) {
            if !clock.sleep_until(*at, stop) {
                break;
            }
            namespaces[*node as usize].enter(|| self.set(&mut Netlink::new()?, (*node, *to, *link), Place::Taken))?;
        }
        Ok(())
    }

    /// The changes that move or lose waiting packets.
    pub(crate) fn queue_changes(&self) -> impl Iterator<Item = QueueChange> + '_ {
        self.changes.iter().filter_map(|RouteChange { at, to, link, from, waiting, .. }| {
            let addresses = ADDRESSES.map(|(ip, _)| address(*to, ip)).to_vec();
            let from = from.filter(|_| *waiting != Waiting::Kept)? as usize;
            let are_lost = *waiting == Waiting::Lost;
            Some(QueueChange { at: *at, from, to: *link as usize, addresses, are_lost })
        })
    }

    /// Sets a route for each IP version of the flows that the link can carry.
    fn set(&self, netlink: &mut Netlink, (node, to, link): (u32, u32, u32), place: Place) -> io::Result<()> {
        let mtu = self.scenario.links[link as usize].mtu.map_or(u32::MAX, u32::from);
        let usual = self.settings.configs[node as usize].initial_window;
        let initial_window = self.settings.windows.get(&(node, link)).copied().unwrap_or(usual);
        let window = (initial_window != Config::default().initial_window).then_some(initial_window);
        for (ip, bits) in ADDRESSES {
            if mtu >= u32::from(ip.least_mtu()) && self.scenario.flows.iter().any(|flow| flow.ip == ip) {
                let device = index(&device_of(link as usize))?;
                netlink.route(device, (address(to, ip), bits), address(node, ip), window, place)?;
            }
        }
        Ok(())
    }
}

/// The versions of IP, and the bits of a host's address.
pub(crate) const ADDRESSES: [(IpVersion, u8); 2] = [(IpVersion::V4, 32), (IpVersion::V6, 128)];
