//! The laws that a run keeps, looked at once at its end: no packet is lost but where a link drops it, and nothing waits that no event
//! would ever move.
//!
//! The counts exist for the tables; only a network counts what it is given and what gets out of it. So a run whose tables would be
//! wrong for want of a packet or of an event has none.

use perigee_tcp::Endpoint;
use perigee_units::Time;

use crate::link_account::LinkAccount;
use crate::network::Network;
use crate::queue::EventQueue;

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
