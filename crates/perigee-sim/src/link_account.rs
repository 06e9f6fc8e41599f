//! What is counted of a link at the end of a run, and the laws that a link keeps.

use perigee_link::{Counters, Held};
use perigee_results::Name;
use perigee_units::Time;

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

impl LinkAccount<'_> {
    /// Packets that it will give to another link or to an end.
    pub(crate) fn on_their_way(&self) -> u64 {
        self.held.waiting + self.held.delivered + self.in_calendar
    }

    /// Offered = delivered + dropped + waiting, and every packet that the link knows of is kept.
    pub(crate) fn conserves(&self) -> Option<String> {
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
    pub(crate) fn moves(&self, due: Option<Time>) -> Option<String> {
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
