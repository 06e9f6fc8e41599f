//! The data of one direction at the place of the capture: new, retransmitted, or only late.
//!
//! A segment is a retransmission if its bytes have passed before. A segment that fills a gap either was late (the sender sent
//! it before the segment that showed the gap, which overtook it), or the gap was a loss and the segment is a retransmission.
//! The sender's clock (RFC 7323) decides between the two where both segments have it and it ticked between them; the
//! numbers of IP packets decide where the sender counts them; otherwise time decides: a retransmission for the gap takes
//! more than three quarters of a round trip.

use perigee_units::Time;
use perigee_wire::{Spans, Tcp};

/// The data that passed so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceHistory {
    /// Position behind the last byte.
    next: u64,
    /// Data that passed and are not acknowledged.
    unacknowledged: Spans,
    floor: u64,
    gaps: Vec<Gap>,
    again: Spans,
    /// Number of the last IP packet; packets with a number shortly after the one before, and packets without.
    identification: u16,
    ordered: u64,
    disordered: u64,
    /// The latest packets.
    recent: [Option<PacketId>; RECENT],
    place: usize,
}

/// The fields that distinguish two packets.
#[derive(Clone, Copy, Debug)]
struct PacketId {
    at: Time,
    sequence: u32,
    payload: u32,
    identification: u16,
    clock: Option<u32>,
}

/// Bytes that had not passed when later ones did.
#[derive(Clone, Copy, Debug)]
struct Gap {
    start: u64,
    end: u64,
    /// The packet that showed it.
    by: PacketId,
}

/// The kind of a piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// New data, behind all others.
    New,
    /// The data passed before; `first`: they are retransmitted for the first time.
    Retransmitted { first: bool },
    /// The data fill a gap that showed at this time, and were sent before the packet that showed it.
    Late(Time),
    /// The data fill a gap that showed at this time: their first transmission was lost before this place.
    Lost(Time),
}

impl SequenceHistory {
    /// Whether the capture has the packet twice: it passed just before.
    pub(crate) fn is_duplicate(&mut self, now: Time, tcp: &Tcp, identification: u16) -> bool {
        let id = PacketId::of(now, tcp, identification);
        let known = self.recent.iter().flatten().any(|seen| seen.is_same(&id));
        if !known {
            self.recent[self.place % RECENT] = Some(id);
            self.place += 1;
            if identification != 0 {
                let step = identification.wrapping_sub(self.identification);
                *(if (1..=STEP).contains(&step) { &mut self.ordered } else { &mut self.disordered }) += 1;
                self.identification = identification;
            }
        }
        known
    }

    /// A piece of a packet passes. `round_trip` is the shortest that is known.
    #[inline]
    pub(crate) fn piece(&mut self, start: u64, end: u64, by: (Time, &Tcp, u16), round_trip: Option<Time>) -> Piece {
        if start == self.next && self.gaps.is_empty() {
            self.next = end;
            return Piece::New;
        }
        self.rare(start, end, PacketId::of(by.0, by.1, by.2), round_trip)
    }

    #[cold]
    fn rare(&mut self, start: u64, end: u64, id: PacketId, round_trip: Option<Time>) -> Piece {
        let next = self.next;
        self.next = next.max(end);
        if start >= next {
            if start > next {
                if self.gaps.is_empty() {
                    self.unacknowledged = Spans::default();
                    self.unacknowledged.add(self.floor.min(next), next, |_, _| {});
                }
                self.gaps.push(Gap { start: next, end: start, by: id });
            }
            self.unacknowledged.add(start, end, |_, _| {});
            return Piece::New;
        }
        let mut fresh = 0;
        if !self.gaps.is_empty() {
            self.unacknowledged
                .add(start.max(self.floor), end, |start, end| fresh += end.min(next).saturating_sub(start));
        }
        if fresh == 0 {
            let mut first = 0;
            self.again.add(start.max(self.floor), end.min(next), |start, end| first += end - start);
            return Piece::Retransmitted { first: first > 0 };
        }
        let place = self.gaps.partition_point(|gap| gap.end <= start);
        let Some(gap) = self.gaps.get(place).copied().filter(|gap| gap.start < end) else {
            return Piece::Lost(id.at);
        };
        let rest = [(gap.start, start.min(gap.end)), (end.max(gap.start), gap.end)];
        let rest = rest.into_iter().filter(|(start, end)| start < end).map(|(start, end)| Gap { start, end, ..gap });
        self.gaps.splice(place..=place, rest);
        if self.is_late(&gap.by, &id, round_trip) {
            Piece::Late(gap.by.at)
        } else {
            Piece::Lost(gap.by.at)
        }
    }

    /// The other end has all data before `acknowledged`. Returns how many bytes of them never passed.
    #[inline]
    pub(crate) fn acknowledged(&mut self, acknowledged: u64) -> u64 {
        self.floor = acknowledged;
        if self.gaps.is_empty() && self.again.is_empty() {
            return 0;
        }
        self.again.remove_before(acknowledged);
        self.unacknowledged.remove_before(acknowledged);
        let gone = self.gaps.partition_point(|gap| gap.end <= acknowledged);
        self.gaps.drain(..gone).map(|gap| gap.end - gap.start).sum()
    }

    /// Behind the last byte that passed.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Gives up the oldest gaps where there are too many; returns their bytes.
    pub(crate) fn give_up(&mut self) -> u64 {
        if self.gaps.len() <= MOST_GAPS {
            return 0;
        }
        self.gaps.drain(..MOST_GAPS / 2).map(|gap| gap.end - gap.start).sum()
    }

    /// Whether a packet that fills a gap was sent before the one that showed it.
    fn is_late(&self, showed: &PacketId, fills: &PacketId, round_trip: Option<Time>) -> bool {
        if let (Some(showed), Some(fills)) = (showed.clock, fills.clock) {
            let ticks = fills.wrapping_sub(showed) as i32;
            if ticks != 0 {
                return ticks < 0;
            }
        }
        if showed.identification != 0 && fills.identification != 0 && self.ordered > ORDERED * self.disordered {
            return (fills.identification.wrapping_sub(showed.identification) as i16) < 0;
        }
        let bound = round_trip.map_or(UNKNOWN, |round_trip| Time::from_nanos(round_trip.as_nanos() / 4 * 3));
        fills.at - showed.at < bound
    }
}

impl PacketId {
    fn of(at: Time, tcp: &Tcp, identification: u16) -> Self {
        let clock = tcp.timestamps.map(|(clock, _)| clock);
        Self { at, sequence: tcp.sequence, payload: tcp.payload, identification, clock }
    }

    /// A retransmission has another number, or comes much later.
    fn is_same(&self, other: &Self) -> bool {
        let bound = if self.identification == 0 { AT_ONCE } else { SOON };
        (self.sequence, self.payload, self.identification, self.clock)
            == (other.sequence, other.payload, other.identification, other.clock)
            && other.at - self.at < bound
    }
}

const RECENT: usize = 8;
/// A host that counts its packets counts those of other connections too.
const STEP: u16 = 64;
/// Numbers decide where this many times more packets are in their order than are not.
const ORDERED: u64 = 9;
/// Bound of reordering where no round trip is known.
const UNKNOWN: Time = Time::from_millis(3);
/// Largest distance in time of two sightings of one packet at two devices of one host.
const SOON: Time = Time::from_millis(100);
/// That distance where the packet has no number to know it by.
const AT_ONCE: Time = Time::from_micros(50);
const MOST_GAPS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn tcp(clock: Option<u32>) -> Tcp {
        Tcp { timestamps: clock.map(|clock| (clock, 0)), ..Tcp::default() }
    }

    /// Pieces of 1000 bytes by number, with the sender's clock and the packet's number.
    fn pieces(steps: &[(u64, u64, Option<u32>, u16)]) -> Vec<Piece> {
        let mut history = SequenceHistory::default();
        let mut piece = |at: u64, number: u64, clock: Option<u32>, identification: u16| {
            let tcp = Tcp { sequence: number as u32 * 1000, payload: 1000, ..tcp(clock) };
            assert!(!history.is_duplicate(ms(at), &tcp, identification));
            history.piece(number * 1000, (number + 1) * 1000, (ms(at), &tcp, identification), Some(ms(100)))
        };
        steps.iter().map(|(at, number, clock, identification)| piece(*at, *number, *clock, *identification)).collect()
    }

    #[test]
    fn the_clock_of_the_sender_tells_late_from_sent_again() {
        let late = pieces(&[(0, 0, Some(5), 0), (1, 2, Some(7), 0), (300, 1, Some(6), 0), (301, 3, Some(300), 0)]);
        assert_eq!(late, [Piece::New, Piece::New, Piece::Late(ms(1)), Piece::New]);
        let lost = pieces(&[(0, 0, Some(5), 0), (1, 2, Some(7), 0), (2, 1, Some(8), 0)]);
        assert_eq!(lost[2], Piece::Lost(ms(1)));
    }

    #[test]
    fn numbers_of_packets_tell_where_the_sender_counts_them() {
        let counted = |third: u16| {
            let steps =
                (0..40).map(|n| (0, n, None, 100 + n as u16)).chain([(1, 41, None, 141), (400, 40, None, third)]);
            *pieces(&steps.collect::<Vec<_>>()).last().expect("pieces")
        };
        assert_eq!(counted(140), Piece::Late(ms(1)));
        assert_eq!(counted(142), Piece::Lost(ms(1)));
    }

    #[test]
    fn without_either_it_is_the_time_that_tells() {
        assert_eq!(pieces(&[(0, 0, None, 0), (1, 2, None, 0), (75, 1, None, 0)])[2], Piece::Late(ms(1)));
        assert_eq!(pieces(&[(0, 0, None, 0), (1, 2, None, 0), (101, 1, None, 0)])[2], Piece::Lost(ms(1)));
    }

    #[test]
    fn what_passed_before_was_sent_again() {
        let steps = [(0, 0), (1, 1), (2, 3), (90, 1), (91, 3), (200, 2), (201, 1)];
        let steps = steps.map(|(at, number)| (at, number, None, 0));
        let (first, again) = (Piece::Retransmitted { first: true }, Piece::Retransmitted { first: false });
        let expected = [Piece::New, Piece::New, Piece::New, first, first, Piece::Lost(ms(2)), again];
        assert_eq!(pieces(&steps), expected);
    }

    #[test]
    fn what_is_acknowledged_but_never_passed_was_not_captured() {
        let mut history = SequenceHistory::default();
        let by = (ms(0), &tcp(None), 0);
        history.piece(0, 1000, by, None);
        history.piece(3000, 4000, by, None);
        assert_eq!((history.acknowledged(1000), history.acknowledged(4000), history.acknowledged(4000)), (0, 2000, 0));
        assert_eq!(history.piece(1000, 2000, by, None), Piece::Retransmitted { first: false });
    }

    #[test]
    fn a_packet_that_was_captured_twice_is_known_by_its_number() {
        let mut history = SequenceHistory::default();
        let mut seen = |at: u64, sequence: u32, identification| {
            history.is_duplicate(Time::from_micros(at), &Tcp { sequence, payload: 10, ..tcp(None) }, identification)
        };
        assert_eq!([seen(0, 0, 7), seen(900, 0, 7), seen(1000, 0, 8)], [false, true, false]);
        assert_eq!([seen(2000, 5, 0), seen(2010, 5, 0), seen(3000, 5, 0)], [false, true, false]);
    }
}
