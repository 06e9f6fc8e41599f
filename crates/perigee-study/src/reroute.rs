//! A route that holds for a time, or while a link is dark.

use perigee_units::{encode_enum, encode_struct, Time};

/// A route that holds at times only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reroute {
    /// Number of the node where the packet is.
    pub node: u32,
    /// Number of the destination.
    pub to: u32,
    /// Number of the directed link it takes.
    pub link: u32,
    /// Its times.
    pub when: When,
    /// The packets that wait for the other link when it begins or ends to hold.
    pub waiting: Waiting,
}

/// The fate of packets that wait for a link when a route leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// The link sends them.
    #[default]
    Kept,
    /// They are offered to the new link.
    Moved,
    /// They are lost.
    Lost,
}

/// The times at which a route holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct When {
    /// From this instant on.
    pub start: Time,
    /// Until this instant; [`Time::MAX`]: to the end of the run.
    pub end: Time,
    /// The link during whose outages it holds.
    pub dark: Option<Watch>,
}

/// How a node watches a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watch {
    /// Number of one of its directions; both are watched.
    pub link: u32,
    /// Time for which it is dark before the node reacts.
    pub detect: Time,
    /// Time for which it has carried packets again before the node uses it.
    pub restore: Time,
}

encode_struct!(Reroute { node, to, link, when, waiting });
encode_enum!(Waiting { Kept, Moved, Lost });
encode_struct!(When { start, end, dark });
encode_struct!(Watch { link, detect, restore });

/// A change of a route: from an instant on, a node sends packets for another one over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteChange {
    /// The instant.
    pub at: Time,
    /// Number of the node.
    pub node: u32,
    /// Number of the destination.
    pub to: u32,
    /// Number of the directed link.
    pub link: u32,
    /// Number of the link that its packets took before.
    pub from: Option<u32>,
    /// The fate of packets that wait for the former link.
    pub waiting: Waiting,
}
