//! The terminals of a channel, their requests, and the bursts in which their packets leave.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use perigee_units::{Bytes, Positions, Rate, Stream, Time};

use super::allocation::{allocate, Request};
use super::demand::Demand;
use super::plan::{BurstTimePlan, Grid};
use super::spec::{Follows, TdmaSpec, TerminalOf};
use crate::queue::Waiting;

/// The terminals of a link on a TDMA channel.
///
/// Events happen in time order: requests, one allocation delay before the start of each super-frame, determine its plan; bursts start with
/// each slot whose terminal has something to send. A burst takes what its terminal has at that instant, up to `payload`, and a packet
/// leaves at the end of the burst that carries its last byte.
///
/// Internal instants are `shift` later than those of the run, so the run starts within a super-frame.
pub(crate) struct Channel<T> {
    spec: TdmaSpec,
    grid: Grid,
    shift: Time,
    /// Maximum bytes and packets that may wait at each terminal.
    limits: (u64, usize),
    terminals: Vec<Terminal<T>>,
    /// Number of terminals that have sent something; they come first.
    active: usize,
    /// Flows and their terminals, sorted by flow.
    of_flow: Vec<(u32, u32)>,
    plans: VecDeque<BurstTimePlan>,
    /// The next super-frame to plan.
    next_plan: u64,
    /// The next slot of each terminal that has something to send and slots in the plans.
    slots: BinaryHeap<Reverse<(Time, u32)>>,
    /// Terminals that have something to send but no slot in the plans.
    stalled: Vec<u32>,
    requests: Vec<Request>,
    granted: Vec<u32>,
    ledger: Ledger,
    quiet: QuietCapacity,
    /// The demand of other terminals, if it varies.
    demand: Option<Demand>,
    /// Draws for each super-frame of the clock: how much later its slots lie.
    moves: Positions,
    /// Skips super-frames without traffic.
    skips: bool,
}

/// Packets waiting at a terminal.
struct Terminal<T> {
    waiting: VecDeque<Waiting<T>>,
    /// Unsent bytes of the first packet; zero if nothing waits.
    left: u32,
    bytes: u64,
    /// Bytes that arrived since the last request.
    arrived: u64,
    /// Bytes that waited at the last request.
    waited: u64,
    /// Mean of what a rate request covers of a super-frame, in 2^-16 bytes.
    mean: u64,
    /// Slots before this instant are used.
    free_from: Time,
}

/// Capacity of active terminals in past super-frames, for the rate over time.
#[derive(Default)]
struct Ledger {
    /// In time order.
    spans: VecDeque<Span>,
}

/// Consecutive super-frames.
struct Span {
    first: u64,
    /// The super-frame after the last.
    end: u64,
    capacity: Capacity,
}

/// Bytes that active terminals can send in each super-frame of a span.
#[derive(Clone, Copy)]
enum Capacity {
    /// Bytes of a plan.
    Planned(u64),
    /// Bytes of super-frames for which none of this many active terminals requested anything.
    Quiet(usize),
}

/// Bytes that active terminals can send in super-frames without requests, computed on demand and cached.
struct QuietCapacity {
    active: usize,
    /// The bytes, indexed by the terminal that is served first.
    by_turn: Vec<Option<u64>>,
}

impl<T> Channel<T> {
    /// An idle channel. The run's position within a super-frame is drawn from the stream of its clock, so that channels with one clock
    /// have the same position.
    pub(crate) fn new(spec: &TdmaSpec, bytes: Option<Bytes>, packets: Option<u32>, seed: u64, name: &str) -> Self {
        let clock = spec.clock.as_ref().map_or_else(|| format!("{name}/tdma"), |clock| format!("clock/{clock}"));
        let shift = Stream::new(seed, &format!("{clock}/phase")).below(spec.superframe.as_nanos().max(1));
        let terminals = (0..spec.terminals.max(1)).map(|_| Terminal::new()).collect();
        let grid = Grid {
            superframe: spec.superframe,
            multiframes: spec.multiframes,
            slots_in_line: spec.slots_in_line(),
            guard: spec.guard,
            first_place: spec.place,
        };
        Self {
            spec: spec.clone(),
            grid,
            shift: Time::from_nanos(shift),
            limits: (bytes.map_or(u64::MAX, Bytes::as_u64), packets.map_or(usize::MAX, |packets| packets as usize)),
            terminals,
            active: usize::from(spec.terminal_of == TerminalOf::Link),
            of_flow: Vec::new(),
            plans: VecDeque::new(),
            next_plan: 0,
            slots: BinaryHeap::new(),
            stalled: Vec::new(),
            requests: Vec::new(),
            granted: Vec::new(),
            ledger: Ledger::default(),
            quiet: QuietCapacity { active: 0, by_turn: Vec::new() },
            skips: spec.busy == Time::ZERO,
            demand: Demand::new(spec, seed, &clock),
            moves: Positions::new(seed, &format!("{clock}/moves")),
        }
    }

    /// Plans each super-frame, as the reference for skipped ones.
    pub(crate) fn plan_each_superframe(&mut self) {
        self.skips = false;
    }

    /// Adds a packet at its terminal; returns false, without counting it in the request, if there is no room.
    pub(crate) fn enqueue(&mut self, waiting: Waiting<T>) -> bool {
        let number = self.terminal_of(waiting.packet.flow);
        let (most_bytes, most_packets) = self.limits;
        let terminal = &mut self.terminals[number as usize];
        if terminal.bytes + u64::from(waiting.size) > most_bytes || terminal.waiting.len() >= most_packets {
            return false;
        }
        terminal.arrived += u64::from(waiting.size);
        terminal.bytes += u64::from(waiting.size);
        let (was_empty, arrived) = (terminal.waiting.is_empty(), waiting.arrived);
        if was_empty {
            terminal.left = waiting.size;
        }
        terminal.waiting.push_back(waiting);
        if was_empty {
            self.schedule(number, arrived + self.shift);
        }
        true
    }

    /// The next instant at which a burst leaves, or a plan is made for a waiting terminal; `None` if nothing waits.
    #[inline(never)]
    pub(crate) fn next_decision(&self) -> Option<Time> {
        let burst = self.slots.peek().map(|Reverse((slot, _))| *slot);
        let plan = (!self.stalled.is_empty()).then(|| self.next_request());
        [burst, plan].into_iter().flatten().min().map(|at| at - self.shift)
    }

    /// Carries out everything due by `now`; passes each packet that leaves to `sent`, with the start and the end of its burst.
    pub(crate) fn advance(&mut self, now: Time, sent: &mut dyn FnMut(Waiting<T>, Time, Time)) {
        let now = now + self.shift;
        loop {
            let request = self.next_request();
            let burst = self.slots.peek().map_or(Time::MAX, |Reverse((slot, _))| *slot);
            if request.min(burst) > now {
                return;
            }
            if burst < request {
                self.burst(sent);
            } else if !(self.skips && self.is_quiet() && self.skip_to(now)) {
                self.plan(request);
            }
        }
    }

    /// The mean rate allocated to active terminals between two instants of the run. Outside the known plans, it is the rate they have
    /// without requests.
    pub(crate) fn mean_rate(&mut self, from: Time, to: Time) -> Rate {
        let (from, to) = (from + self.shift, to + self.shift);
        if from >= to {
            let bytes = self.capacity_of(self.grid.number_at(from));
            return self.spec.rate_of_bytes(bytes);
        }
        self.ledger.forget_before(self.grid.number_at(from));
        let mut weighted = 0u128;
        let mut at = from;
        while at < to {
            let number = self.grid.number_at(at);
            let end = self.grid.begin(number + 1).min(to);
            let bytes = self.capacity_of(number);
            weighted += u128::from(self.spec.rate_of_bytes(bytes).as_bps()) * u128::from((end - at).as_nanos());
            at = end;
        }
        Rate::from_bps((weighted / u128::from((to - from).as_nanos())) as u64)
    }

    /// The rate allocated to active terminals at an instant of the run.
    pub(crate) fn rate_at(&self, t: Time) -> Rate {
        let superframe = self.grid.number_at(t + self.shift);
        self.spec.rate_of_bytes(match self.ledger.capacity(superframe).unwrap_or(Capacity::Quiet(self.active)) {
            Capacity::Planned(bytes) => bytes,
            Capacity::Quiet(active) => self.quiet_capacity(superframe, active),
        })
    }

    fn capacity_of(&mut self, superframe: u64) -> u64 {
        let active = match self.ledger.capacity(superframe).unwrap_or(Capacity::Quiet(self.active)) {
            Capacity::Planned(bytes) => return bytes,
            Capacity::Quiet(active) => active,
        };
        let turn = self.turn(superframe);
        if let Some(bytes) = self.quiet.get(active, turn) {
            return bytes;
        }
        let bytes = self.quiet_capacity(superframe, active);
        self.quiet.keep((active, turn), bytes, self.terminals.len());
        bytes
    }

    /// Bytes that the first `active` terminals can send in a super-frame without requests.
    fn quiet_capacity(&self, superframe: u64, active: usize) -> u64 {
        let background = self.background();
        let of = |terminal| if terminal < active { Request::default() } else { background };
        let requests: Vec<_> = (0..self.terminals.len()).map(of).collect();
        let mut granted = Vec::new();
        self.allocate(superframe, &requests, &mut granted);
        self.bytes_below(active, &granted)
    }

    /// Bytes that the terminals below this number can send with these units.
    fn bytes_below(&self, terminal: usize, granted: &[u32]) -> u64 {
        granted[..terminal].iter().map(|units| self.spec.bytes_of(*units)).sum()
    }

    /// Allocates the units of a super-frame for these requests.
    fn allocate(&self, superframe: u64, requests: &[Request], granted: &mut Vec<u32>) {
        let (fixed, most) = (self.spec.fixed, self.spec.most_units());
        allocate(requests, (fixed, most, self.spec.free), self.spec.slots, self.turn(superframe), granted);
    }

    /// The terminal that is served first in a super-frame.
    fn turn(&self, superframe: u64) -> usize {
        (superframe % self.terminals.len() as u64) as usize
    }

    /// The terminal of a flow; the first packet of a flow takes the next terminal.
    fn terminal_of(&mut self, flow: u32) -> u32 {
        if self.spec.terminal_of == TerminalOf::Link {
            return 0;
        }
        match self.of_flow.binary_search_by_key(&flow, |(flow, _)| *flow) {
            Ok(at) => self.of_flow[at].1,
            Err(at) => {
                let terminal = self.of_flow.len() % self.terminals.len();
                self.of_flow.insert(at, (flow, terminal as u32));
                self.active = self.active.max(terminal + 1);
                terminal as u32
            }
        }
    }

    /// Time of the requests that determine the next plan.
    fn next_request(&self) -> Time {
        self.grid.begin(self.next_plan) - self.spec.allocation_delay()
    }

    /// Schedules the first slot of a terminal at or after `from`.
    fn schedule(&mut self, terminal: u32, from: Time) {
        let from = from.max(self.terminals[terminal as usize].free_from);
        let slot = self.plans.iter().find_map(|plan| plan.next_slot(&self.grid, terminal as usize, from));
        match slot {
            Some(slot) => self.slots.push(Reverse((slot, terminal))),
            None => self.stalled.push(terminal),
        }
    }

    /// Sends the burst of the earliest slot.
    fn burst(&mut self, sent: &mut dyn FnMut(Waiting<T>, Time, Time)) {
        let Some(Reverse((begin, number))) = self.slots.pop() else { return };
        let end = self.grid.burst_end(begin);
        let payload = self.payload_at(number as usize, begin);
        let terminal = &mut self.terminals[number as usize];
        terminal.free_from = begin + Time::from_nanos(1);
        terminal.send(payload, &mut |waiting| sent(waiting, begin - self.shift, end - self.shift));
        if !terminal.waiting.is_empty() {
            self.schedule(number, begin);
        }
    }

    /// Bytes that a slot of a terminal carries at an instant of the known plans.
    fn payload_at(&self, terminal: usize, at: Time) -> u64 {
        if self.spec.slow_payload.is_none() {
            return self.spec.payload.as_u64();
        }
        let superframe = self.grid.number_at(at);
        let plan = self.plans.iter().find(|plan| plan.number == superframe);
        self.spec.payload_of(plan.map_or(0, |plan| plan.units_of(terminal)))
    }

    fn plan(&mut self, now: Time) {
        let number = self.next_plan;
        self.requests.clear();
        if let Some(demand) = &mut self.demand {
            demand.step();
        }
        for i in 0..self.terminals.len() {
            let request = if i < self.active {
                self.terminals[i].average(&self.spec);
                self.request(i, now)
            } else if self.demand.as_ref().is_none_or(|demand| demand.is_busy(i)) {
                self.background()
            } else {
                Request::default()
            };
            self.requests.push(request);
        }
        let mut granted = std::mem::take(&mut self.granted);
        self.allocate(number, &self.requests, &mut granted);
        self.granted = granted;
        while self.plans.front().is_some_and(|plan| self.grid.begin(plan.number + 1) <= now) {
            self.plans.pop_front();
        }
        let plan = BurstTimePlan::new(number, &self.granted, &self.layout(number));
        let capacity = Capacity::Planned(self.bytes_below(self.active, &self.granted));
        self.ledger.note(Span { first: number, end: number + 1, capacity });
        self.plans.push_back(plan);
        self.next_plan += 1;
        for terminal in std::mem::take(&mut self.stalled) {
            self.schedule(terminal, now);
        }
    }

    /// The grid of a super-frame, in which the first unit may lie later.
    fn layout(&self, number: u64) -> Grid {
        let later = self.moves.below(number, u64::from(self.spec.moves) + 1);
        Grid { first_place: (self.grid.first_place + later as u32) % self.grid.slots_in_line, ..self.grid }
    }

    /// The request of a terminal at `now`: a rate for the arrivals of the last super-frame and for the part of the backlog to drain per
    /// super-frame; a volume for the backlog beyond what is allocated.
    fn request(&self, number: usize, now: Time) -> Request {
        let terminal = &self.terminals[number];
        let rate = if self.spec.requests.rate() {
            let drained = self.spec.drain.map_or(0, |drain| share(terminal.bytes_left(), self.grid.superframe, drain));
            let covered = terminal.mean.div_ceil(1 << FRACTION) + drained;
            self.spec.units_beside_fixed(covered + (self.spec.margin.as_f64() * covered as f64).ceil() as u64)
        } else {
            0
        };
        let volume = if self.spec.requests.volume() {
            let planned = self.plans.iter().map(|plan| {
                let payload = self.spec.payload_of(plan.units_of(number));
                u64::from(plan.slots_from(&self.grid, number, now)) * payload
            });
            let granted = planned.sum::<u64>() + u64::from(rate) * self.spec.unit_bytes();
            self.spec.units_beside_fixed(terminal.bytes_left().saturating_sub(granted))
        } else {
            0
        };
        Request { rate, volume }
    }

    /// The request of a terminal that has sent nothing.
    fn background(&self) -> Request {
        let bytes = self.spec.background.bytes_in(self.grid.superframe).as_u64();
        Request { rate: self.spec.units_beside_fixed(bytes), volume: 0 }
    }

    /// Whether nothing waits and nothing has arrived since the last request.
    fn is_quiet(&self) -> bool {
        let terminals = &self.terminals[..self.active];
        self.slots.is_empty()
            && self.stalled.is_empty()
            && terminals.iter().all(|terminal| terminal.arrived == 0 && terminal.mean == 0 && terminal.waited == 0)
    }

    /// Skips super-frames that ended by `now`, in which no terminal sends; returns false if the next plan's has not ended.
    fn skip_to(&mut self, now: Time) -> bool {
        let current = self.grid.number_at(now);
        if self.next_plan >= current {
            return false;
        }
        self.plans.clear();
        self.ledger.note(Span { first: self.next_plan, end: current, capacity: Capacity::Quiet(self.active) });
        self.next_plan = current;
        true
    }
}

impl<T> Terminal<T> {
    fn new() -> Self {
        Self { waiting: VecDeque::new(), left: 0, bytes: 0, arrived: 0, waited: 0, mean: 0, free_from: Time::ZERO }
    }

    /// Takes what a request covers of the super-frame that ends into its mean.
    fn average(&mut self, spec: &TdmaSpec) {
        let mut covered = std::mem::take(&mut self.arrived);
        if spec.follows == Follows::Growth {
            let waits = self.bytes_left();
            let left = self.waited + covered - waits;
            covered = covered.max(left);
            self.waited = waits;
        }
        let covered = covered << FRACTION;
        let falls = covered < self.mean;
        let memory = spec.memory_falling.filter(|_| falls).unwrap_or(spec.memory).max(spec.superframe);
        let (step, memory) = (u128::from(spec.superframe.as_nanos()), u128::from(memory.as_nanos()));
        let weighted = u128::from(covered) * step + u128::from(self.mean) * (memory - step);
        self.mean = (weighted / memory) as u64;
    }

    fn bytes_left(&self) -> u64 {
        let sent = self.waiting.front().map_or(0, |first| first.size - self.left);
        self.bytes - u64::from(sent)
    }

    /// Sends up to `room` bytes; passes on the packets that are complete.
    fn send(&mut self, mut room: u64, complete: &mut dyn FnMut(Waiting<T>)) {
        while let Some(first) = self.waiting.front() {
            if u64::from(self.left) > room {
                self.left -= room as u32;
                return;
            }
            room -= u64::from(self.left);
            self.bytes -= u64::from(first.size);
            if let Some(first) = self.waiting.pop_front() {
                complete(first);
            }
            self.left = self.waiting.front().map_or(0, |next| next.size);
        }
    }
}

impl Ledger {
    fn note(&mut self, span: Span) {
        if self.spans.len() >= MOST_REMEMBERED {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
    }

    fn capacity(&self, number: u64) -> Option<Capacity> {
        let behind = self.spans.partition_point(|span| span.end <= number);
        self.spans.get(behind).filter(|span| span.first <= number).map(|span| span.capacity)
    }

    fn forget_before(&mut self, number: u64) {
        while self.spans.front().is_some_and(|first| first.end <= number) {
            self.spans.pop_front();
        }
    }
}

impl QuietCapacity {
    fn get(&self, active: usize, turn: usize) -> Option<u64> {
        self.by_turn.get(turn).copied().flatten().filter(|_| self.active == active)
    }

    fn keep(&mut self, (active, turn): (usize, usize), bytes: u64, terminals: usize) {
        if self.active != active || self.by_turn.is_empty() {
            self.active = active;
            self.by_turn.clear();
            self.by_turn.resize(terminals, None);
        }
        self.by_turn[turn] = Some(bytes);
    }
}

/// The share of `bytes` in `time` out of `of`, rounded up; at most all of them.
fn share(bytes: u64, time: Time, of: Time) -> u64 {
    let part = u128::from(bytes) * u128::from(time.as_nanos());
    part.div_ceil(u128::from(of.as_nanos().max(1))).min(u128::from(bytes)) as u64
}

/// Binary digits behind the point of a mean of bytes.
const FRACTION: u32 = 16;

/// Maximum number of super-frames whose capacity is stored if the rate is never queried, with idle periods counted as one: 16 s of the
/// shortest super-frames, 3.7 hours of Skyplex's.
const MOST_REMEMBERED: usize = 1 << 14;
