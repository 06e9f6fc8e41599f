//! QUIC as the outside of a datagram tells (RFC 8999, RFC 9000 section 17): a long header, with the first bytes of a version, and the
//! spin bit of a short one.

use perigee_units::Time;

/// A long header, by the first four bytes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongHeader {
    /// Place of its version in [`VERSIONS`].
    pub(crate) version: usize,
    /// A server asks the client to begin again (RFC 9000, section 17.2.5).
    pub(crate) is_retry: bool,
}

impl LongHeader {
    /// `None`: not one of QUIC.
    pub(crate) fn of(first_bytes: u32) -> Option<Self> {
        let (flags, version) = (first_bytes >> 24, first_bytes & 0x00ff_ffff);
        let version = VERSIONS.iter().position(|(start, _)| *start == version)?;
        (flags & LONG == LONG).then_some(Self { version, is_retry: flags & TYPE == RETRY })
    }
}

/// First three bytes of the version of a long header, and what it is called: RFC 9000, RFC 9369, drafts before.
pub(crate) const VERSIONS: [(u32, &str); 3] =
    [(0x00_0000, "version 1"), (0x6b_3343, "version 2"), (0xff_0000, "a draft")];
/// Bits of the form and the fixed bit.
const LONG: u32 = 0xc0;
const TYPE: u32 = 0x30;
const RETRY: u32 = 0x30;

/// Whether a datagram begins with a short header, and its spin bit (RFC 9000, section 17.3.1).
pub(crate) fn spin_bit(first_bytes: u32) -> Option<bool> {
    let flags = first_bytes >> 24;
    (flags & LONG == FIXED).then_some(flags & SPIN != 0)
}

const FIXED: u32 = 0x40;
const SPIN: u32 = 0x20;

/// Changes of the spin bit in one direction: an end that does not take part has a constant bit, or draws one for each datagram (RFC 9000,
/// section 17.4).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpinBits {
    datagrams: u64,
    changes: u64,
    last: bool,
}

impl SpinBits {
    pub(crate) fn see(&mut self, bit: bool) {
        self.changes += u64::from(self.datagrams > 0 && bit != self.last);
        self.datagrams += 1;
        self.last = bit;
    }

    pub(crate) fn use_(self) -> SpinUse {
        match (self.datagrams, self.changes) {
            (..LEAST_JUDGED, _) => SpinUse::Unknown,
            (_, 0) => SpinUse::Constant,
            (datagrams, changes) if changes * FEWEST_A_TURN > datagrams => SpinUse::Drawn,
            _ => SpinUse::Spins,
        }
    }
}

/// Use of the spin bit in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpinUse {
    /// Too few datagrams tell.
    Unknown,
    /// It never changes.
    Constant,
    /// It was drawn for each datagram, or few of them pass in a round trip.
    Drawn,
    /// It changes once in a round trip.
    Spins,
}

impl SpinUse {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Constant => "constant",
            Self::Drawn => "drawn",
            Self::Spins => "spins",
        }
    }
}

/// One in 200 sequences of this length whose bits are drawn changes as seldom as one that spins.
const LEAST_JUDGED: u64 = 32;
const FEWEST_A_TURN: u64 = 4;

/// Round trips by the spin bit: the times between its changes in one direction. A change counts if the next datagram has the new bit, too,
/// since one that was overtaken has an old bit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpinTurns {
    /// The bit of the turn, and when its first datagram passed if its beginning was seen.
    turn: Option<(bool, Option<Time>)>,
    /// First datagram with the other bit.
    other: Option<Time>,
}

impl SpinTurns {
    /// Returns the round trip that a datagram completes.
    pub(crate) fn see(&mut self, now: Time, bit: bool) -> Option<Time> {
        let Some((current, since)) = self.turn else {
            self.turn = Some((bit, None));
            return None;
        };
        if bit == current {
            self.other = None;
            return None;
        }
        let Some(began) = self.other.take() else {
            self.other = Some(now);
            return None;
        };
        self.turn = Some((bit, Some(began)));
        began.checked_sub(since?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(t: u64) -> Time {
        Time::from_millis(t)
    }

    /// Datagrams each 5 ms whose bit changes each 80 ms, every `late`th of which arrives behind the next one.
    fn spinning(late: usize) -> Vec<(Time, bool)> {
        let mut bits: Vec<bool> = (0..400u64).map(|number| number * 5 / 80 % 2 == 1).collect();
        for place in (late..400).step_by(late) {
            bits.swap(place - 1, place);
        }
        (0..).map(|number| ms(number * 5)).zip(bits).collect()
    }

    fn used(bits: impl IntoIterator<Item = bool>) -> SpinUse {
        let mut seen = SpinBits::default();
        bits.into_iter().for_each(|bit| seen.see(bit));
        seen.use_()
    }

    #[test]
    fn a_bit_that_spins_gives_round_trips_also_where_datagrams_overtake() {
        for late in [1000, 8, 16] {
            let datagrams = spinning(late);
            assert_eq!(used(datagrams.iter().map(|(_, bit)| *bit)), SpinUse::Spins, "{late}");
            let mut turns = SpinTurns::default();
            let trips: Vec<Time> = datagrams.iter().filter_map(|(at, bit)| turns.see(*at, *bit)).collect();
            assert_eq!(trips.len(), 23, "the first change begins a turn, each other one ends one");
            assert!(trips.iter().all(|trip| ms(70) <= *trip && *trip <= ms(90)), "{late}: {trips:?}");
        }
    }

    #[test]
    fn bits_without_a_spin_are_told() {
        assert_eq!(used((0..31).map(|number| number > 15)), SpinUse::Unknown);
        assert_eq!(used((0..1000).map(|_| true)), SpinUse::Constant);
        let drawn = (0..1000u32).map(|number| number.wrapping_mul(2_654_435_761) & 0x8000 != 0);
        assert_eq!(used(drawn), SpinUse::Drawn);
    }

    #[test]
    fn a_short_header_has_the_fixed_bit_alone() {
        assert_eq!(spin_bit(0x6000_0000), Some(true));
        assert_eq!(spin_bit(0x4f00_0000), Some(false));
        for other in [0xc000_0000, 0x8000_0000, 0x0000_0000] {
            assert_eq!(spin_bit(other), None);
        }
    }
}
