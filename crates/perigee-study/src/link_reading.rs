//! Reads the state of a link for its log, which is independent of the link model.

use perigee_link::{DropReason, Link};
use perigee_results::{LinkCounters, LinkReading};
use perigee_units::Time;

/// The state of a link at `to`, the end of an interval that began at `from`.
pub fn read_link<T: Copy>(link: &mut Link<T>, from: Time, to: Time) -> LinkReading {
    // Reading the backlog makes a link that decides on departure execute due decisions; its counters are read after that.
    let queue_bytes = link.queue_bytes(to);
    let total = link.counters();
    let counters = LinkCounters {
        offered_packets: total.offered_packets,
        offered_bytes: total.offered_bytes,
        delivered_packets: total.delivered_packets,
        delivered_bytes: total.delivered_bytes,
        dropped_queue_full_packets: total.dropped_by(DropReason::QueueFull),
        dropped_aqm_packets: total.dropped_by(DropReason::Aqm),
        lost_packets: total.dropped_by(DropReason::Loss),
    };
    LinkReading { counters, queue_bytes, rate: link.mean_rate(from, to) }
}
