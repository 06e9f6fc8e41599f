//! Conservation laws, checked at the end of a run: packets are lost only where a link drops them, and nothing waits for an event that never
//! comes.
//!
//! The tables have their own counts; the network counts separately what enters and leaves it. A run that misses a packet or an event
//! therefore fails instead of returning wrong tables.

use perigee_link::{Counters, Held};
use perigee_results::Name;
use perigee_tcp::Endpoint;
use perigee_units::Time;

use crate::network::Network;

/// Counters and contents of a link at the end of a run, and the laws that they obey.
pub(crate) struct LinkAccount<'a> {
    pub(crate) name: &'a Name,
    pub(crate) counters: Counters,
    /// Packets stored by the link itself.
    pub(crate) held: Held,
    /// Packets stored by the network until their delivery.
    pub(crate) in_calendar: u64,
    /// Packets in [`PacketStore`](crate::store::PacketStore), for a link that stores packets.
    pub(crate) in_store: u64,
    /// Packets dropped by later links, to be reported when they leave this one.
    pub(crate) lost_behind: u64,
    /// Its next delivery or decision.
    pub(crate) next_event: Option<Time>,
}

impl LinkAccount<'_> {
    /// Packets that it will pass to another link or to an end.
    pub(crate) fn in_transit(&self) -> u64 {
        self.held.waiting + self.held.delivered + self.in_calendar
    }

    /// Checks that offered = delivered + dropped + withdrawn + waiting, and that every packet known to the link is stored.
    pub(crate) fn conserves(&self) -> Option<String> {
        let Self { name, counters, held, in_calendar, in_store, .. } = self;
        let (offered, delivered, dropped) =
            (counters.offered_packets, counters.delivered_packets, counters.dropped_packets());
        let (withdrawn, waiting) = (counters.withdrawn_packets, held.waiting);
        if offered != delivered + dropped + withdrawn + waiting {
            return Some(format!(
                "link `{name}` was offered {offered} packets, of which {delivered} are delivered, {dropped} dropped, \
                 {withdrawn} withdrawn and {waiting} waiting"
            ));
        }
        (held.total() != *in_store || held.delivered + in_calendar > delivered).then(|| {
            let known = held.total();
            format!("link `{name}` knows of {known} packets, keeps {in_store}, and has to deliver {in_calendar} of {delivered}")
        })
    }

    /// Checks that a link with packets has an event in time. A link whose next event is [`Time::MAX`] never sends again, because the study
    /// keeps its rate at zero.
    pub(crate) fn moves(&self, due: Option<Time>) -> Option<String> {
        let (name, held) = (self.name, self.held.total() + self.in_calendar + self.lost_behind);
        match self.next_event {
            None if held > 0 => Some(format!("link `{name}` holds {held} packets without a next decision")),
            Some(at) if at < Time::MAX && due.is_none_or(|due| due > at) => {
                let at = at.as_secs_f64();
                Some(format!(
                    "link `{name}` holds {held} packets, the next of them until {at} s, and has no event by then"
                ))
            }
            _ => None,
        }
    }
}

/// The law that a network has broken, if any.
pub(crate) fn broken_by(network: &Network) -> Option<String> {
    let links = (0..).zip(network.accounts());
    let of_link =
        |(number, link): (u32, LinkAccount<'_>)| link.conserves().or_else(|| link.moves(network.queue.due(number)));
    links.into_iter().find_map(of_link).or_else(|| conserves(network))
}

/// How the end of a connection waits for a timer event that was never set, if it does.
pub(crate) fn missed_timer(host: &Endpoint, due: Option<Time>) -> Option<String> {
    let at = host.next_timer().filter(|at| due.is_none_or(|due| due > *at))?;
    let event = due.map_or("none".to_owned(), |due| format!("one at {} s", due.as_secs_f64()));
    Some(format!("has a timer at {} s and as its event {event}", at.as_secs_f64()))
}

/// Whether packets sent equal packets arrived, dropped and in flight.
fn conserves(network: &Network) -> Option<String> {
    let (mut dropped, mut held) = (0, 0);
    for link in network.accounts() {
        dropped += link.counters.dropped_packets();
        held += link.in_transit();
    }
    let traffic = network.traffic();
    let (sent, arrived) = (traffic.sent, traffic.arrived);
    (sent != arrived + dropped + held).then(|| {
        format!("of {sent} packets sent, {arrived} have arrived, {dropped} are dropped and {held} are in flight")
    })
}
