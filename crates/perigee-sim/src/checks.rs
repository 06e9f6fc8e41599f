//! The laws that a run keeps, looked at once at its end: no packet is lost but where a link drops it, and nothing waits that no event
//! would ever move.
//!
//! The counts exist for the tables; only a network counts what it is given and what gets out of it. So a run whose tables would be
//! wrong for want of a packet or of an event has none.

use perigee_link::{Counters, Held};
use perigee_results::Name;
use perigee_tcp::Endpoint;
use perigee_units::Time;

use crate::network::Network;
use crate::queue::EventQueue;

/// What a link has done, and what it holds.
pub(crate) struct LinkAccount<'a> {
    pub(crate) name: &'a Name,
    pub(crate) counters: Counters,
    /// Of packets that it keeps itself.
    pub(crate) held: Held,
    /// Packets that the network keeps until it delivers them.
    pub(crate) in_calendar: u64,
    /// Packets in the places for those that it keeps itself.
    pub(crate) in_places: u64,
    /// Packets that are dropped behind it, which is told when they leave it.
    pub(crate) lost_behind: u64,
    /// When it delivers or decides next.
    pub(crate) next_event: Option<Time>,
}

/// How a network has broken a law; `None`: it has kept them.
pub(crate) fn broken_by(network: &Network, queue: &EventQueue) -> Option<String> {
    let links = (0..).zip(network.accounts());
    let of_link = |(number, link): (u32, LinkAccount<'_>)| link.conserves().or_else(|| link.moves(queue.due(number)));
    links.into_iter().find_map(of_link).or_else(|| conserves(network))
}

/// How the end of a connection waits for a timer that never fires; `None`: it does not.
pub(crate) fn waits_in_vain(host: &Endpoint, due: Option<Time>) -> Option<String> {
    let at = host.next_timer().filter(|at| due.is_none_or(|due| due > *at))?;
    let event = due.map_or("none".to_owned(), |due| format!("one at {} s", due.as_secs_f64()));
    Some(format!("has a timer at {} s and as its event {event}", at.as_secs_f64()))
}

impl LinkAccount<'_> {
    /// Packets that it will give to another link or to an end.
    fn on_their_way(&self) -> u64 {
        self.held.waiting + self.held.delivered + self.in_calendar
    }

    /// Offered = delivered + dropped + waiting, and every packet that the link knows of is kept.
    fn conserves(&self) -> Option<String> {
        let Self { name, counters, held, in_calendar, in_places, .. } = self;
        let (offered, delivered, dropped) =
            (counters.offered_packets, counters.delivered_packets, counters.dropped_packets());
        if offered != delivered + dropped + held.waiting {
            let waiting = held.waiting;
            return Some(format!(
                "link `{name}` was offered {offered} packets, of which {delivered} are delivered, {dropped} dropped and {waiting} waiting"
            ));
        }
        (held.total() != *in_places || held.delivered + in_calendar > delivered).then(|| {
            let known = held.total();
            format!("link `{name}` knows of {known} packets, keeps {in_places}, and has to deliver {in_calendar} of {delivered}")
        })
    }

    /// A link that holds packets has an event, no later than it needs it. One whose next instant is the end of time never sends again,
    /// since its rate stays zero: that is the study's doing.
    fn moves(&self, due: Option<Time>) -> Option<String> {
        let (name, held) = (self.name, self.held.total() + self.in_calendar + self.lost_behind);
        match self.next_event {
            None if held > 0 => Some(format!("link `{name}` holds {held} packets and will never decide on them")),
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

/// What the ends have sent has arrived, is dropped, or is still on its way.
fn conserves(network: &Network) -> Option<String> {
    let (mut dropped, mut held) = (0, 0);
    for link in network.accounts() {
        dropped += link.counters.dropped_packets();
        held += link.on_their_way();
    }
    let traffic = network.traffic();
    let (sent, arrived) = (traffic.sent, traffic.arrived);
    (sent != arrived + dropped + held).then(|| {
        format!("of {sent} packets sent, {arrived} have arrived, {dropped} are dropped and {held} are on their way")
    })
}
