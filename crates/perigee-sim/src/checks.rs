//! Conservation laws, checked at the end of a run: packets are lost only where a link drops them, and nothing waits for an event that never
//! comes.
//!
//! The tables have their own counts; the network counts separately what enters and leaves it. A run that misses a packet or an event
//! therefore fails instead of returning wrong tables.

use perigee_tcp::Endpoint;
use perigee_units::Time;

use crate::hop::LinkAccount;
use crate::network::Network;

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
