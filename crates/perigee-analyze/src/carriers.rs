//! Tunnels, labels and tags that a packet came through.

/// A tunnel, or a label or tag of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Vlans,
    Mpls,
    Pppoe,
    Gre,
    IpInIp,
    SixInFour,
    Vxlan,
    Geneve,
}

/// Those that a packet came through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carriers(u8);

impl Carriers {
    pub(crate) fn add(&mut self, carrier: Carrier) {
        self.0 |= 1 << carrier as u8;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their names.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter(move |(number, _)| self.0 >> number & 1 == 1).map(|(_, name)| name)
    }
}

const NAMES: [&str; 8] = ["VLANs", "MPLS", "PPPoE", "GRE", "IP in IP", "6in4", "VXLAN", "GENEVE"];
