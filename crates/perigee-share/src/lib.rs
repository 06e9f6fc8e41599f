//! Who may send how fast onto a link whose rate is known: [`Allocator`] divides it between subscribers and their connections.
//!
//! Between subscribers it is weighted max-min fairness (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2) with a floor and
//! a ceiling: unused shares are handed on. Within a subscriber those connections are first that have sent little of late, as short
//! transfers and interactive ones have; the others share equally what is left, an eighth at least.
//!
//! A subscriber that uses less than its share saves what it leaves, up to [`Policy::savings`], and spends it for its short transfers before
//! others get more than their floors: a page then loads as on an idle link, and over time no one gets more than a fair share and these
//! savings. An eighth is left to others meanwhile.
//!
//! Rates in bit/s, sizes in bytes, everything in integers: the same division whatever the order of subscribers and connections.

mod fill;
mod keys;
mod transfer;

use fill::{Bend, Claim, Fill};
pub use keys::{BYPASS, MEMORY, SAVINGS, SHARE, SHORT};
use perigee_units::{Bytes, Rate, Time};
pub use transfer::{Segment, Sender, Transfer};

/// Bounds of what counts as short, and how much a subscriber may save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A connection that has spent less than this is short.
    pub short: Bytes,
    /// Time in which a connection that sends nothing gets [`Policy::short`] back; one slower than `short / memory` by itself is
    /// interactive, and stays short whatever it has sent.
    pub memory: Time,
    /// Most that a subscriber saves.
    pub savings: Bytes,
}

/// One who shares the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// Its share relative to others'; zero counts as one.
    pub weight: u32,
    /// Rate that it gets, where its connections have as much to send, before anyone gets more than a floor.
    pub floor: Rate,
    /// Rate that it never exceeds; [`Rate::UNLIMITED`] without one.
    pub ceiling: Rate,
    /// Its savings: the allocator's own account, at first [`Policy::savings`] for a subscriber that comes.
    pub saved: Bytes,
}

/// A connection of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Index of its subscriber.
    pub subscriber: u32,
    /// Bytes that it has sent of late, kept by [`Policy::spent`].
    pub spent: Bytes,
    /// Rate that it can use now: [`Rate::ZERO`] with nothing to send, [`Rate::UNLIMITED`] if only the link limits it. Too high a demand
    /// leaves the link idle, too low a one holds the connection back.
    pub demand: Rate,
}

/// Divides a link's rate, at intervals. Keeps its memory: it allocates none but where there are more to share than ever before.
///
/// ```
/// use perigee_share::{Allocator, Connection, Policy, Subscriber};
/// use perigee_units::{Bytes, Rate, Time};
///
/// let anyone = Subscriber { weight: 1, floor: Rate::ZERO, ceiling: Rate::UNLIMITED, saved: Bytes::ZERO };
/// let mut subscribers = [anyone, Subscriber { weight: 3, ..anyone }];
/// let policy = Policy::default();
/// let long = Connection { subscriber: 0, spent: policy.short, demand: Rate::UNLIMITED };
/// let short = Connection { subscriber: 1, spent: Bytes::ZERO, demand: Rate::from_bps(2_000_000) };
/// let connections = [long, short, Connection { subscriber: 1, ..long }];
///
/// let mut allocator = Allocator::new(policy);
/// let rates = allocator.allocate(Rate::from_bps(20_000_000), Time::from_millis(20), &mut subscribers, &connections);
/// assert_eq!(rates.iter().map(|rate| rate.as_bps()).collect::<Vec<_>>(), [5_000_000, 2_000_000, 13_000_000]);
/// assert_eq!(allocator.of_subscribers()[1], Rate::from_bps(15_000_000));
/// ```
#[derive(Debug)]
pub struct Allocator {
    policy: Policy,
    /// Sums of demands, per subscriber: all, and of short connections.
    demands: Vec<Demand>,
    claims: Vec<Claim>,
    /// Rates, per subscriber, that its savings would give to its short transfers.
    wishes: Vec<Claim>,
    /// Rates, per subscriber: without its savings, and with what is spent of them.
    plain: Vec<u64>,
    shares: Vec<Rate>,
    /// Indices of connections, by subscriber, short ones first.
    order: Vec<u32>,
    rates: Vec<Rate>,
    bends: Vec<Bend>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    all: u64,
    short: u64,
}

impl Policy {
    /// Bytes that a connection counts as having spent, `elapsed` after it had spent `before`, having sent `sent` since. Never more than
    /// twice [`Policy::short`]: after [`Policy::memory`] of silence any connection is short again. One that ceases to be short counts as
    /// having spent the most. One that `is_held` by its share gets nothing back: who opens many downloads, each slow for that, would
    /// spend savings for all of them.
    ///
    /// ```
    /// use perigee_share::Policy;
    /// use perigee_units::{Bytes, Time};
    ///
    /// let policy = Policy { short: Bytes::new(100_000), memory: Time::from_secs(10), ..Policy::default() };
    /// let after = policy.spent(Bytes::new(50_000), Bytes::new(4_000), Time::from_secs(1), false);
    /// assert_eq!(after, Bytes::new(44_000));
    /// assert_eq!(policy.spent(Bytes::new(50_000), Bytes::new(4_000), Time::from_secs(1), true), Bytes::new(54_000));
    /// let after_a_gigabyte = policy.spent(after, Bytes::new(1 << 30), Time::from_secs(60), false);
    /// assert!(!policy.is_short(after_a_gigabyte));
    /// assert!(policy.is_short(policy.spent(after_a_gigabyte, Bytes::ZERO, Time::from_millis(10_001), false)));
    /// assert_eq!(policy.spent(Bytes::new(99_000), Bytes::new(2_000), Time::ZERO, false), Bytes::new(200_000));
    /// ```
    #[must_use]
    pub fn spent(&self, before: Bytes, sent: Bytes, elapsed: Time, is_held: bool) -> Bytes {
        let memory = u128::from(self.memory.as_nanos().max(1));
        let free = if is_held { 0 } else { u128::from(elapsed.as_nanos()) };
        let back = u128::from(self.short.as_u64()) * free / memory;
        let back = Bytes::new(u64::try_from(back).unwrap_or(u64::MAX));
        let most = self.short + self.short;
        let after = (before + sent - back).min(most);
        // At the bound, several that share a rate would otherwise take turns to be short and to stand still.
        if self.is_short(before) && !self.is_short(after) {
            most
        } else {
            after
        }
    }

    /// Whether a connection that has spent this is short.
    pub fn is_short(&self, spent: Bytes) -> bool {
        spent < self.short
    }
}

impl Default for Policy {
    /// A page's objects are short, a minute of 200 kbit/s is interactive, and a page of 2 MB is saved for.
    fn default() -> Self {
        Self { short: Bytes::new(256 << 10), memory: Time::from_secs(10), savings: Bytes::new(2 << 20) }
    }
}

impl Allocator {
    /// Without anyone yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            demands: Vec::new(),
            claims: Vec::new(),
            wishes: Vec::new(),
            plain: Vec::new(),
            shares: Vec::new(),
            order: Vec::new(),
            rates: Vec::new(),
            bends: Vec::new(),
        }
    }

    /// Divides `rate` for the next `interval`, and keeps the subscribers' savings. Returns the rate of each connection; one without
    /// demand has none. Each one may send [`Rate::bytes_in`] of the interval.
    ///
    /// # Panics
    /// If a connection has the index of no subscriber.
    pub fn allocate(
        &mut self,
        rate: Rate,
        interval: Time,
        subscribers: &mut [Subscriber],
        connections: &[Connection],
    ) -> &[Rate] {
        self.demand(subscribers.len(), connections);
        self.claims.clear();
        self.claims.extend(subscribers.iter().zip(&self.demands).map(|(subscriber, demand)| {
            let cap = demand.all.min(subscriber.ceiling.as_bps());
            Claim { weight: u64::from(subscriber.weight.max(1)), floor: subscriber.floor.as_bps().min(cap), cap }
        }));
        let plain = Fill::of(rate.as_bps(), &self.claims, &mut self.bends);
        self.plain.clear();
        self.plain.extend(self.claims.iter().map(|claim| plain.share(claim)));
        if !matches!(plain, Fill::All) {
            self.spend(rate, interval, subscribers);
        }
        let shared = Fill::of(rate.as_bps(), &self.claims, &mut self.bends);
        self.shares.clear();
        self.shares.extend(self.claims.iter().map(|claim| Rate::from_bps(shared.share(claim))));
        self.save(rate, interval, subscribers);
        self.divide(connections);
        &self.rates
    }

    /// The rates of subscribers of the last division.
    pub fn of_subscribers(&self) -> &[Rate] {
        &self.shares
    }

    /// Sums the demands of each subscriber's connections.
    fn demand(&mut self, subscribers: usize, connections: &[Connection]) {
        self.demands.clear();
        self.demands.resize(subscribers, Demand::default());
        for connection in connections {
            let demand = &mut self.demands[connection.subscriber as usize];
            let rate = connection.demand.as_bps();
            demand.all = demand.all.saturating_add(rate);
            if self.policy.is_short(connection.spent) {
                demand.short = demand.short.saturating_add(rate);
            }
        }
    }

    /// Raises the floors of subscribers with short transfers to what their savings allow.
    fn spend(&mut self, rate: Rate, interval: Time, subscribers: &[Subscriber]) {
        let floors: u128 = self.claims.iter().map(|claim| u128::from(claim.floor)).sum();
        let left = u128::from(rate.as_bps()).saturating_sub(floors) as u64;
        let first = first_of(left);
        let wish = |claim: &Claim, demand: &Demand, subscriber: &Subscriber| {
            let most = demand.short.min(claim.cap).min(Rate::of(subscriber.saved, interval).as_bps());
            Claim { floor: 0, cap: most.saturating_sub(claim.floor), ..*claim }
        };
        let all = self.claims.iter().zip(&self.demands).zip(subscribers);
        self.wishes.clear();
        self.wishes.extend(all.map(|((claim, demand), subscriber)| wish(claim, demand, subscriber)));
        let fill = Fill::of(first, &self.wishes, &mut self.bends);
        for (claim, wish) in self.claims.iter_mut().zip(&self.wishes) {
            claim.floor += fill.share(wish);
        }
    }

    /// Adds to the savings of each subscriber what it leaves of its share, and takes what it gets beyond it.
    fn save(&mut self, rate: Rate, interval: Time, subscribers: &mut [Subscriber]) {
        let is_active = |demand: &Demand| demand.all > 0;
        let active = subscribers.iter().zip(&self.demands).filter(|(_, demand)| is_active(demand));
        let active: u64 = active.map(|(subscriber, _)| u64::from(subscriber.weight.max(1))).sum();
        for (at, subscriber) in subscribers.iter_mut().enumerate() {
            let (claim, demand, plain) = (&self.claims[at], &self.demands[at], self.plain[at]);
            let weights = active + if is_active(demand) { 0 } else { claim.weight };
            let fair = (u128::from(rate.as_bps()) * u128::from(claim.weight) / u128::from(weights.max(1))) as u64;
            let entitled = Rate::from_bps(if plain < claim.cap { plain } else { plain.max(fair) });
            let saved = subscriber.saved + entitled.bytes_in(interval) - self.shares[at].bytes_in(interval);
            subscriber.saved = saved.min(self.policy.savings);
        }
    }

    /// Divides the subscribers' shares between their connections: short ones first.
    fn divide(&mut self, connections: &[Connection]) {
        let policy = self.policy;
        let place = |at: &u32| {
            let connection = &connections[*at as usize];
            (connection.subscriber, !policy.is_short(connection.spent))
        };
        self.rates.clear();
        self.rates.resize(connections.len(), Rate::ZERO);
        self.order.clear();
        self.order.extend(0..connections.len() as u32);
        self.order.sort_unstable_by_key(place);
        let mut left = 0;
        let mut last = None;
        for group in self.order.chunk_by(|one, next| place(one) == place(next)) {
            let subscriber = connections[group[0] as usize].subscriber;
            if last.replace(subscriber) != Some(subscriber) {
                left = self.shares[subscriber as usize].as_bps();
            }
            self.claims.clear();
            let demands = group.iter().map(|at| connections[*at as usize].demand.as_bps());
            self.claims.extend(demands.map(|cap| Claim { weight: 1, floor: 0, cap }));
            let is_short = policy.is_short(connections[group[0] as usize].spent);
            let demand = self.demands[subscriber as usize];
            let others = if is_short { (left - first_of(left)).min(demand.all - demand.short) } else { 0 };
            let fill = Fill::of(left - others, &self.claims, &mut self.bends);
            for (at, claim) in group.iter().zip(&self.claims) {
                let share = fill.share(claim);
                self.rates[*at as usize] = Rate::from_bps(share);
                left -= share;
            }
        }
    }
}

/// Part of a rate that those who go first may take.
fn first_of(rate: u64) -> u64 {
    rate / FIRST.1 * FIRST.0
}

/// That part, numerator and denominator: some is left, so that nobody else stands still.
const FIRST: (u64, u64) = (7, 8);
