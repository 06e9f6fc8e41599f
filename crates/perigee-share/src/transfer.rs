//! A direction of a connection: the rate that it could use of the link, and the one that its share lets it send at.

use perigee_units::{Bytes, Rate, Time};

use crate::Policy;

/// A direction of a connection: what it has moved of late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transfer {
    /// [`Connection::spent`](crate::Connection::spent).
    pub spent: Bytes,
    /// Whether it got less than it could use.
    pub is_held: bool,
    /// Mean rate of its payload.
    recent: Rate,
}

/// How a sender stands.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// The smaller one of its congestion window and the window that the other end offers.
    pub window: Bytes,
    /// Whether its window doubles in each round trip.
    pub is_slow_start: bool,
    /// Whether bytes wait to be sent.
    pub has_more: bool,
}

/// A full segment on the link, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// One at least.
    pub payload: u64,
    /// With what the link adds.
    pub headers: u64,
}

impl Transfer {
    /// Takes into account what has `moved` since the last look. Returns the rate of payload that it could use until the next.
    ///
    /// A `sender` with bytes that wait could use a window in each round trip, in slow start two; otherwise what it has sent of late, and a
    /// little more. One that gets as much has no bound, so that nothing need be kept for a window that grows slowly. How much waits at the
    /// other end, where that sends, is not known: it doubles in a round trip at most.
    ///
    /// Of late is a mean: what is kept between bursts adds up to what these were. With the rate of the last burst instead, fading as
    /// slowly, a few bytes now and then keep ten times their own. What is received comes in one burst each round trip where a window
    /// holds it: its mean is of two, or it would count as over between two bursts, and be let go.
    pub fn look(
        &mut self,
        policy: &Policy,
        moved: Bytes,
        elapsed: Time,
        round_trip: Time,
        sender: Option<Sender>,
    ) -> Rate {
        self.spent = policy.spent(self.spent, moved, elapsed, self.is_held && elapsed < SILENCE);
        let over = if sender.is_some() { OF_LATE } else { OF_LATE.max(round_trip * 2) };
        let (part, over) = (elapsed.min(over).as_nanos(), over.as_nanos());
        let [kept, new] = [times(self.recent, over - part, over), times(Rate::of(moved, elapsed), part, over)];
        self.recent = Rate::from_bps(kept.as_bps().saturating_add(new.as_bps()));
        let Some(Sender { window, is_slow_start, has_more }) = sender else { return times(self.recent, 2, 1) };
        let of_window = times(Rate::of(window, round_trip), if is_slow_start { 2 } else { 1 }, 1);
        if has_more {
            of_window
        } else {
            of_window.min(times(self.recent, 5, 4))
        }
    }

    /// Whether its share of the link is all that it could use there.
    pub fn is_enough(&mut self, share: Rate, demand: Rate) -> bool {
        self.is_held = share < demand;
        !self.is_held
    }

    /// Payload per second to which a sender is bound from now on, bytes; `None` as long as it has no bound, and needs none: its window goes
    /// out at once. One that has a bound and needs none gets the `link`'s: TCP raises a rate only with the next acknowledgement.
    pub fn pace(&mut self, share: Rate, demand: Rate, link: Rate, segment: Segment, is_bound: bool) -> Option<u64> {
        let is_enough = self.is_enough(share, demand);
        let rate = segment.payload_of(if is_enough { link } else { share });
        (is_bound || !is_enough).then(|| (rate.as_bps() / 8).max(SLOWEST))
    }
}

impl Segment {
    /// The rate on the link of such segments with this rate of payload.
    pub fn on_link(self, payload: Rate) -> Rate {
        times(payload, self.payload + self.headers, self.payload)
    }

    /// The rate of payload of such segments with this rate on the link.
    pub fn payload_of(self, on_link: Rate) -> Rate {
        times(on_link, self.payload, self.payload + self.headers)
    }
}

fn times(rate: Rate, factor: u64, divisor: u64) -> Rate {
    let bps = u128::from(rate.as_bps()) * u128::from(factor) / u128::from(divisor);
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

/// Time over which the mean of late is: eight divisions of 20 ms.
const OF_LATE: Time = Time::from_millis(160);
/// Time without a look after which it is no longer its share that holds it: longer than between two segments at [`SLOWEST`].
const SILENCE: Time = Time::from_secs(1);
/// Least pace of a connection, bytes per second: low enough that 1,000 of them share 20 Mbit/s, and a pause after two segments, which
/// nothing shortens, is 1.4 s.
const SLOWEST: u64 = 2_000;
