//! Specification of a TDMA channel.

use perigee_units::{encode_enum, encode_struct, Bytes, Rate, Ratio, Time};

/// A TDMA channel with bandwidth on demand.
///
/// A super-frame has `multiframes` multi-frames, each with `slots` slots on `carriers` carriers. Capacity is granted in
/// *units*: one slot in each multi-frame of a super-frame, so a unit is `payload` bytes per multi-frame.
///
/// ```
/// use perigee_link::TdmaSpec;
/// use perigee_units::{Bytes, Rate, Time};
/// let channel = TdmaSpec {
///     superframe: Time::from_millis(820),
///     multiframes: 3,
///     slots: 48,
///     payload: Bytes::new(1504),
///     terminals: 22,
///     fixed: 1,
///     ..TdmaSpec::default()
/// };
/// assert_eq!(channel.unit(), Rate::from_bps(44_019));
/// assert_eq!(channel.most_units(), 27, "48 less one for each of 21 other terminals");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TdmaSpec {
    /// Validity of a burst time plan.
    pub superframe: Time,
    /// Multi-frames in a super-frame; at least 1.
    pub multiframes: u32,
    /// Slots of a multi-frame on all carriers together; a multiple of `carriers`.
    pub slots: u32,
    /// Parallel carriers, with slots at the same instants. A terminal sends on one at a time.
    pub carriers: u32,
    /// Bytes that a slot carries, in packets with the link's overhead; at least 1.
    pub payload: Bytes,
    /// Bytes that a slot carries in a super-frame in which its terminal has only its `fixed` units, and sends on a slower carrier; at most
    /// `payload`. `None`: `payload`.
    pub slow_payload: Option<Bytes>,
    /// Guard time at the end of a slot; less than a slot.
    pub guard: Time,
    /// Name of the clock of the super-frames. Channels with the same clock start their super-frames at the same instants; `None` is a clock
    /// of the channel's own.
    pub clock: Option<String>,
    /// Place in the multi-frame, in slots, of the first slot of the first terminal; less than the slots of a carrier.
    pub place: u32,
    /// Terminals on the channel, including those of the link; at least 1.
    pub terminals: u32,
    /// Assignment of packets to terminals.
    pub terminal_of: TerminalOf,
    /// Units of each terminal in every super-frame without request (CRA); `terminals` times this is at most `slots`.
    pub fixed: u32,
    /// Maximum units of a terminal.
    pub most: Option<u32>,
    /// The capacity that terminals request.
    pub requests: Requests,
    /// Time in which a rate request also drains the backlog; `None` if it covers arrivals only. A value below the allocation delay makes
    /// grants oscillate.
    pub drain: Option<Time>,
    /// Time constant of the exponentially weighted mean of arrivals that a rate request covers; those of the last super-frame if zero.
    pub memory: Time,
    /// Time constant of that mean while the last super-frame's arrivals are below it; `None` if it falls as it rises.
    pub memory_falling: Option<Time>,
    /// Share that a rate request adds to what it covers.
    pub margin: Ratio,
    /// Quantity that a rate request covers.
    pub follows: Follows,
    /// Whether units without a request are shared among all terminals (FCA).
    pub free: bool,
    /// Request of each terminal that has not sent a packet of the link yet (RBDC).
    pub background: Rate,
    /// Mean time for which such a terminal requests `background` before it pauses; zero: for ever.
    pub busy: Time,
    /// Mean time for which it pauses.
    pub idle: Time,
    /// Places by which the slots of the link's terminals lie later at most, less than the slots of a carrier; drawn for each super-frame:
    /// the control centre lays out its plans anew as the demand of other terminals changes.
    pub moves: u32,
    /// Time between the end of the interval that a request covers and the sending of the request, plus the time in the control centre.
    pub processing: Time,
    /// Time between the control centre's decision and the start of its plan, without propagation to the terminals.
    pub assignment: Time,
    /// Propagation of a request to the control centre and of the plan back.
    pub propagation: Time,
}

/// Which packets share a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TerminalOf {
    /// All packets of the link.
    #[default]
    Link,
    /// Packets of a flow. With more flows than terminals, terminals are assigned in turn.
    Flow,
}

/// Quantity that a rate request covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follows {
    /// Arrivals in the super-frame before the request.
    #[default]
    Arrivals,
    /// Departures in it, and the growth of what waits, if it grew. As arrivals while it grows; a queue that shrinks keeps its rate.
    Growth,
}

/// How much capacity a terminal requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requests {
    /// Nothing.
    None,
    /// The rate of the arrivals in the super-frame before the request (RBDC).
    #[default]
    Rate,
    /// Bytes that wait without a slot (VBDC).
    Volume,
    /// Both: the rate, and a volume for the rest.
    RateAndVolume,
}

impl Requests {
    pub(crate) fn rate(self) -> bool {
        matches!(self, Self::Rate | Self::RateAndVolume)
    }

    pub(crate) fn volume(self) -> bool {
        matches!(self, Self::Volume | Self::RateAndVolume)
    }
}

impl Default for TdmaSpec {
    /// A super-frame of one slot of 1500 bytes per second for one terminal that requests its rate.
    fn default() -> Self {
        Self {
            superframe: Time::from_secs(1),
            multiframes: 1,
            slots: 1,
            carriers: 1,
            payload: Bytes::new(1500),
            slow_payload: None,
            guard: Time::ZERO,
            clock: None,
            place: 0,
            terminals: 1,
            terminal_of: TerminalOf::Link,
            fixed: 0,
            most: None,
            requests: Requests::Rate,
            drain: None,
            memory: Time::ZERO,
            memory_falling: None,
            margin: Ratio::ZERO,
            follows: Follows::Arrivals,
            free: false,
            background: Rate::ZERO,
            busy: Time::ZERO,
            idle: Time::ZERO,
            moves: 0,
            processing: Time::ZERO,
            assignment: Time::ZERO,
            propagation: Time::ZERO,
        }
    }
}

impl TdmaSpec {
    /// The rate of one unit, rounded down.
    pub fn unit(&self) -> Rate {
        self.rate_of(1)
    }

    /// The rate of the `fixed` units of a terminal that has no others, rounded down.
    pub fn least_rate(&self) -> Rate {
        self.rate_of_bytes(self.bytes_of(self.fixed))
    }

    /// The rate of this many units, rounded down.
    fn rate_of(&self, units: u32) -> Rate {
        self.rate_of_bytes(self.unit_bytes() * u64::from(units))
    }

    /// The rate of this many bytes in a super-frame, rounded down.
    pub(crate) fn rate_of_bytes(&self, bytes: u64) -> Rate {
        let bits = u128::from(bytes) * 8;
        Rate::from_bps((bits * 1_000_000_000 / u128::from(self.superframe.as_nanos().max(1))) as u64)
    }

    /// Bytes that each slot of a terminal carries in a super-frame in which it has this many units.
    pub(crate) fn payload_of(&self, units: u32) -> u64 {
        self.slow_payload.filter(|_| units <= self.fixed).unwrap_or(self.payload).as_u64()
    }

    /// Bytes that a terminal with this many units sends in a super-frame.
    pub(crate) fn bytes_of(&self, units: u32) -> u64 {
        self.payload_of(units) * u64::from(self.multiframes) * u64::from(units)
    }

    /// Units that a terminal requests beside its fixed ones to send these bytes in a super-frame; at most all there are.
    pub(crate) fn units_beside_fixed(&self, bytes: u64) -> u32 {
        if bytes <= self.bytes_of(self.fixed) {
            return 0;
        }
        let units = u32::try_from(bytes.div_ceil(self.unit_bytes())).unwrap_or(u32::MAX);
        units.saturating_sub(self.fixed).max(1).min(self.slots)
    }

    /// Time between the end of the interval that a request covers and the start of the plan that answers it.
    pub fn allocation_delay(&self) -> Time {
        self.processing + self.assignment + self.propagation
    }

    /// Consecutive slots in a multi-frame.
    pub(crate) fn slots_in_line(&self) -> u32 {
        (self.slots / self.carriers.max(1)).max(1)
    }

    /// Maximum units of a terminal: limited by the fixed units of the others, by `most`, and to one carrier at a time.
    pub fn most_units(&self) -> u32 {
        let others = (self.terminals.max(1) - 1).saturating_mul(self.fixed);
        self.slots.saturating_sub(others).min(self.most.unwrap_or(u32::MAX)).min(self.slots_in_line())
    }

    /// Maximum rate of all terminals of the link together.
    pub fn most_rate(&self) -> Rate {
        let units = match self.terminal_of {
            TerminalOf::Link => self.most_units(),
            TerminalOf::Flow => self.slots.min(self.terminals.saturating_mul(self.most_units())),
        };
        self.rate_of(units)
    }

    /// Bytes of a unit in a super-frame.
    pub(crate) fn unit_bytes(&self) -> u64 {
        self.payload.as_u64() * u64::from(self.multiframes)
    }
}

encode_struct!(TdmaSpec {
    superframe,
    multiframes,
    slots,
    carriers,
    payload,
    slow_payload,
    guard,
    clock,
    place,
    terminals,
    terminal_of,
    fixed,
    most,
    requests,
    drain,
    memory,
    memory_falling,
    margin,
    follows,
    free,
    background,
    busy,
    idle,
    moves,
    processing,
    assignment,
    propagation,
});
encode_enum!(TerminalOf { Link, Flow });
encode_enum!(Follows { Arrivals, Growth });
encode_enum!(Requests { None, Rate, Volume, RateAndVolume });
