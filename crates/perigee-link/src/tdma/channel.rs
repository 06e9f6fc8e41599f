//! The terminals of a channel, their requests, and the bursts in which their packets leave.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use perigee_units::{Bytes, Rate, Stream, Time};

use super::allocation::{allocate, Request};
use super::plan::{Grid, Plan};
use super::spec::{TdmaSpec, TerminalOf};
use crate::queue::Waiting;

/// The terminals of a link on a TDMA channel.
///
/// What happens is in the order of time: requests at the begin of each super-frame less the allocation delay, which make
/// the plan of that super-frame; bursts at the begin of each slot whose terminal has something to send. A burst takes what
/// its terminal has at that instant, up to `payload`, and a packet leaves at the end of the burst with its last byte.
///
/// Instants within are `shift` later than those of the run, so that the run begins within a super-frame.
pub(crate) struct Channel<T> {
    spec: TdmaSpec,
    grid: Grid,
    shift: Time,
    /// Of each terminal: most bytes and packets that may wait.
    limits: (u64, usize),
    terminals: Vec<Terminal<T>>,
    /// Terminals that have sent something; they come first.
    active: usize,
    /// Flows and their terminals, by flow.
    of_flow: Vec<(u32, u32)>,
    plans: VecDeque<Plan>,
    /// The super-frame whose plan is made next.
    next_plan: u64,
    /// The next slot of each terminal that has something to send and slots in the plans.
    slots: BinaryHeap<Reverse<(Time, u32)>>,
    /// Terminals that have something to send and no slot in the plans.
    stalled: Vec<u32>,
    requests: Vec<Request>,
    granted: Vec<u32>,
    ledger: Ledger,
    quiet: QuietUnits,
    /// Super-frames in which nobody sends are passed over.
    skips: bool,
}

/// What waits at a terminal.
struct Terminal<T> {
    waiting: VecDeque<Waiting<T>>,
    /// Bytes of the first packet that have not been sent; zero: nothing waits.
    left: u32,
    bytes: u64,
    /// Bytes that have come since the last request.
    arrived: u64,
    /// Slots before this instant are used up.
    free_from: Time,
}

/// Units that active terminals had in past super-frames, for the rate over time.
#[derive(Default)]
struct Ledger {
    /// In the order of time.
    spans: VecDeque<Span>,
}

/// Super-frames one after the other.
struct Span {
    first: u64,
    /// The one behind the last.
    end: u64,
    units: Units,
}

/// Units of the active terminals in each super-frame of a span.
#[derive(Clone, Copy)]
enum Units {
    /// As planned.
    Planned(u32),
    /// Those of a plan that answers no request of the active terminals, which are so many.
    Quiet(usize),
}

/// Units of the active terminals in super-frames for which they request nothing: found when they are asked for, and kept.
struct QuietUnits {
    active: usize,
    /// By the terminal whose turn is first.
    by_turn: Vec<Option<u32>>,
}

impl<T> Channel<T> {
    /// A channel in which nothing waits. Where in a super-frame the run begins is drawn from a stream of its own.
    pub(crate) fn new(spec: &TdmaSpec, bytes: Option<Bytes>, packets: Option<u32>, seed: u64, name: &str) -> Self {
        let shift = Stream::new(seed, &format!("{name}/tdma/phase")).below(spec.superframe.as_nanos().max(1));
        let terminals = (0..spec.terminals.max(1)).map(|_| Terminal::new()).collect();
        let grid = Grid {
            superframe: spec.superframe,
            multiframes: spec.multiframes,
            slots_in_line: spec.slots_in_line(),
            guard: spec.guard,
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
            quiet: QuietUnits { active: 0, by_turn: Vec::new() },
            skips: true,
        }
    }

    /// Makes the plan of each super-frame, as a reference for those that are passed over else.
    pub(crate) fn plan_each_superframe(&mut self) {
        self.skips = false;
    }

    /// Keeps a packet at its terminal; false: there is no room for it, and it is not asked for either.
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

    /// The next instant at which a burst leaves, or a plan is made that a terminal waits for; `None`: nothing waits.
    #[inline(never)]
    pub(crate) fn next_decision(&self) -> Option<Time> {
        let burst = self.slots.peek().map(|Reverse((slot, _))| *slot);
        let plan = (!self.stalled.is_empty()).then(|| self.next_request());
        [burst, plan].into_iter().flatten().min().map(|at| at - self.shift)
    }

    /// Carries out all that is due by `now`; gives to `sent` each packet that leaves, with the begin and the end of its
    /// burst.
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

    /// The mean rate of what the active terminals are granted between two instants of the run; before and after the plans
    /// that are known, of what they are granted where they request nothing.
    pub(crate) fn mean_rate(&mut self, from: Time, to: Time) -> Rate {
        let (from, to) = (from + self.shift, to + self.shift);
        if from >= to {
            let units = self.units_of(self.grid.number_at(from));
            return self.spec.rate_of(units);
        }
        self.ledger.forget_before(self.grid.number_at(from));
        let mut weighted = 0u128;
        let mut at = from;
        while at < to {
            let number = self.grid.number_at(at);
            let end = self.grid.begin(number + 1).min(to);
            let units = self.units_of(number);
            weighted += u128::from(self.spec.rate_of(units).as_bps()) * u128::from((end - at).as_nanos());
            at = end;
        }
        Rate::from_bps((weighted / u128::from((to - from).as_nanos())) as u64)
    }

    /// The rate of what the active terminals are granted at an instant of the run.
    pub(crate) fn rate_at(&self, t: Time) -> Rate {
        let superframe = self.grid.number_at(t + self.shift);
        self.spec.rate_of(match self.ledger.units(superframe).unwrap_or(Units::Quiet(self.active)) {
            Units::Planned(units) => units,
            Units::Quiet(active) => self.quiet_units(superframe, active),
        })
    }

    fn units_of(&mut self, superframe: u64) -> u32 {
        let active = match self.ledger.units(superframe).unwrap_or(Units::Quiet(self.active)) {
            Units::Planned(units) => return units,
            Units::Quiet(active) => active,
        };
        let turn = self.turn(superframe);
        if let Some(units) = self.quiet.get(active, turn) {
            return units;
        }
        let units = self.quiet_units(superframe, active);
        self.quiet.keep((active, turn), units, self.terminals.len());
        units
    }

    /// The units of the first `active` terminals in a super-frame for which they request nothing.
    fn quiet_units(&self, superframe: u64, active: usize) -> u32 {
        let background = self.background();
        let of = |terminal| if terminal < active { Request::default() } else { background };
        let requests: Vec<_> = (0..self.terminals.len()).map(of).collect();
        let mut granted = Vec::new();
        self.allocate(superframe, &requests, &mut granted);
        granted[..active].iter().sum()
    }

    /// What the terminals are granted in a super-frame for which they request this.
    fn allocate(&self, superframe: u64, requests: &[Request], granted: &mut Vec<u32>) {
        let (fixed, most) = (self.spec.fixed, self.spec.most_units());
        allocate(requests, (fixed, most, self.spec.free), self.spec.slots, self.turn(superframe), granted);
    }

    /// The terminal that is served first in a super-frame.
    fn turn(&self, superframe: u64) -> usize {
        (superframe % self.terminals.len() as u64) as usize
    }

    /// The terminal of a flow; the first packet of a flow takes the next one.
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

    /// When the requests are made that the next plan answers.
    fn next_request(&self) -> Time {
        self.grid.begin(self.next_plan) - self.spec.allocation_delay()
    }

    /// Notes the first slot of a terminal at or after `from`.
    fn schedule(&mut self, terminal: u32, from: Time) {
        let from = from.max(self.terminals[terminal as usize].free_from);
        let slot = self.plans.iter().find_map(|plan| plan.next_slot(&self.grid, terminal as usize, from));
        match slot {
            Some(slot) => self.slots.push(Reverse((slot, terminal))),
            None => self.stalled.push(terminal),
        }
    }

    /// The terminal with the earliest slot sends.
    fn burst(&mut self, sent: &mut dyn FnMut(Waiting<T>, Time, Time)) {
        let Some(Reverse((begin, number))) = self.slots.pop() else { return };
        let end = self.grid.burst_end(begin);
        let terminal = &mut self.terminals[number as usize];
        terminal.free_from = begin + Time::from_nanos(1);
        terminal.send(self.spec.payload.as_u64(), &mut |waiting| sent(waiting, begin - self.shift, end - self.shift));
        if !terminal.waiting.is_empty() {
            self.schedule(number, begin);
        }
    }

    /// Makes the next plan, from what the terminals request now.
    fn plan(&mut self, now: Time) {
        let number = self.next_plan;
        self.requests.clear();
        for i in 0..self.terminals.len() {
            let request = if i < self.active { self.request(i, now) } else { self.background() };
            self.requests.push(request);
            self.terminals[i].arrived = 0;
        }
        let mut granted = std::mem::take(&mut self.granted);
        self.allocate(number, &self.requests, &mut granted);
        self.granted = granted;
        while self.plans.front().is_some_and(|plan| self.grid.begin(plan.number + 1) <= now) {
            self.plans.pop_front();
        }
        let plan = Plan::new(number, &self.granted, &self.grid);
        let units = Units::Planned(plan.units_below(self.active));
        self.ledger.note(Span { first: number, end: number + 1, units });
        self.plans.push_back(plan);
        self.next_plan += 1;
        for terminal in std::mem::take(&mut self.stalled) {
            self.schedule(terminal, now);
        }
    }

    /// What a terminal asks for at `now`: a rate for what came in the last super-frame, and for the part of what waits that is
    /// to be drained in one; a volume for all that waits beyond what it has been granted.
    fn request(&self, number: usize, now: Time) -> Request {
        let (terminal, unit) = (&self.terminals[number], self.spec.unit_bytes());
        let beside_fixed = |bytes: u64| {
            let units = u32::try_from(bytes.div_ceil(unit)).unwrap_or(u32::MAX);
            units.saturating_sub(self.spec.fixed).min(self.spec.slots)
        };
        let rate = if self.spec.requests.rate() {
            let drained = self.spec.drain.map_or(0, |drain| share(terminal.bytes_left(), self.grid.superframe, drain));
            beside_fixed(terminal.arrived + drained)
        } else {
            0
        };
        let volume = if self.spec.requests.volume() {
            let ahead = self.plans.iter().map(|plan| u64::from(plan.slots_from(&self.grid, number, now)));
            let granted = ahead.sum::<u64>() * self.spec.payload.as_u64() + u64::from(rate) * unit;
            beside_fixed(terminal.bytes_left().saturating_sub(granted))
        } else {
            0
        };
        Request { rate, volume }
    }

    /// What a terminal asks for that has sent nothing.
    fn background(&self) -> Request {
        let bytes = self.spec.background.bytes_in(self.grid.superframe).as_u64();
        let units = u32::try_from(bytes.div_ceil(self.spec.unit_bytes())).unwrap_or(u32::MAX);
        Request { rate: units.saturating_sub(self.spec.fixed).min(self.spec.slots), volume: 0 }
    }

    /// Whether nothing waits and nothing has come since the last request.
    fn is_quiet(&self) -> bool {
        let terminals = &self.terminals[..self.active];
        self.slots.is_empty() && self.stalled.is_empty() && terminals.iter().all(|terminal| terminal.arrived == 0)
    }

    /// Passes over super-frames that have ended by `now`; false: the next plan's has not. Nobody sends in them.
    fn skip_to(&mut self, now: Time) -> bool {
        let current = self.grid.number_at(now);
        if self.next_plan >= current {
            return false;
        }
        self.plans.clear();
        self.ledger.note(Span { first: self.next_plan, end: current, units: Units::Quiet(self.active) });
        self.next_plan = current;
        true
    }
}

impl<T> Terminal<T> {
    fn new() -> Self {
        Self { waiting: VecDeque::new(), left: 0, bytes: 0, arrived: 0, free_from: Time::ZERO }
    }

    /// Bytes that have not been sent.
    fn bytes_left(&self) -> u64 {
        let sent = self.waiting.front().map_or(0, |first| first.size - self.left);
        self.bytes - u64::from(sent)
    }

    /// Sends up to `room` bytes; gives out the packets whose last byte is among them.
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

    fn units(&self, number: u64) -> Option<Units> {
        let behind = self.spans.partition_point(|span| span.end <= number);
        self.spans.get(behind).filter(|span| span.first <= number).map(|span| span.units)
    }

    fn forget_before(&mut self, number: u64) {
        while self.spans.front().is_some_and(|first| first.end <= number) {
            self.spans.pop_front();
        }
    }
}

impl QuietUnits {
    fn get(&self, active: usize, turn: usize) -> Option<u32> {
        self.by_turn.get(turn).copied().flatten().filter(|_| self.active == active)
    }

    fn keep(&mut self, (active, turn): (usize, usize), units: u32, terminals: usize) {
        if self.active != active || self.by_turn.is_empty() {
            self.active = active;
            self.by_turn.clear();
            self.by_turn.resize(terminals, None);
        }
        self.by_turn[turn] = Some(units);
    }
}

/// The part of `bytes` that falls on `time` of `of`, rounded up; all of it where `time` is longer.
fn share(bytes: u64, time: Time, of: Time) -> u64 {
    let part = u128::from(bytes) * u128::from(time.as_nanos());
    part.div_ceil(u128::from(of.as_nanos().max(1))).min(u128::from(bytes)) as u64
}

/// Super-frames whose units are remembered where nobody asks for the rate, those of a quiet time as one: 16 s of the shortest ones, 3.7
/// hours of Skyplex's.
const MOST_REMEMBERED: usize = 1 << 14;
