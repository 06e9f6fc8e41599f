//! How long the two directions of a connection have waited, and for what.
//!
//! The relay says what it waits for whenever it stops: room at a leg, or bytes. Whatever a send buffer takes at once it does not wait
//! for, though the path may need seconds for it. So the kernel is asked at times: while a leg has unsent bytes, its path is what holds the
//! transfer up, whatever the relay waits for; and how much of that its peer's window was closed, the kernel counts itself.

use perigee_units::Time;

use super::counts::Cause;
use crate::host::sys::TcpInfo;
use crate::relay::wait::Wait;
use crate::relay::Side;

/// The waits of a connection since it was last looked at.
#[derive(Debug)]
pub(crate) struct Waits {
    /// The wait of the direction from each side.
    states: [Wait; 2],
    /// Up to when time without room is counted.
    since: Time,
    /// When bytes last passed, of either direction.
    passed: Time,
    /// Time without room of each direction, and without bytes, since the last look.
    without_room: [u32; 2],
    without_bytes: [u32; 2],
    /// When it was last looked at, and whether bytes waited for the leg to each side.
    looked: Time,
    stood: [bool; 2],
    /// The kernel's count of the time that the window of each side was closed.
    closed_us: [u64; 2],
}

/// A leg as the kernel sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// Bytes that were written and not sent yet.
    pub(crate) unsent: u64,
    /// Time so far that the peer's window was closed while bytes waited.
    pub(crate) closed_us: u64,
}

impl From<TcpInfo> for Look {
    fn from(info: TcpInfo) -> Self {
        Self { unsent: info.unsent.into(), closed_us: info.closed_us }
    }
}

impl Waits {
    /// None yet.
    pub(crate) fn since(began: Time) -> Self {
        Self {
            states: [Wait::Nothing; 2],
            since: began,
            passed: Time::ZERO,
            without_room: [0; 2],
            without_bytes: [0; 2],
            looked: began,
            stood: [false; 2],
            closed_us: [0; 2],
        }
    }

    /// When it was last looked at, or began.
    pub(crate) fn looked(&self) -> Time {
        self.looked
    }

    /// Handles an advance of the relay: which directions have passed bytes, and what each waits for now.
    pub(crate) fn on_advance(&mut self, have_passed: [bool; 2], states: [Wait; 2], now: Time) {
        for (from, has_passed) in have_passed.into_iter().enumerate() {
            match self.states[from] {
                Wait::Room => add(&mut self.without_room[from], now - self.since),
                Wait::Bytes if has_passed && now <= self.passed + PAUSE => {
                    add(&mut self.without_bytes[from], now - self.passed);
                }
                Wait::Bytes | Wait::Nothing => {}
            }
        }
        (self.states, self.since) = (states, now);
        if have_passed != [false; 2] {
            self.passed = now;
        }
    }

    /// Ends an interval with a look at both legs: the time that each of them has held a transfer up in it, by cause, µs. In doubt it is
    /// less than it was: unsent bytes count from one look that sees them to the next.
    pub(crate) fn look(&mut self, legs: [Look; 2], now: Time) -> [[u64; Cause::ALL.len()]; 2] {
        let elapsed = micros(now - self.looked);
        let mut limited = [[0; Cause::ALL.len()]; 2];
        for (to, from) in [(Side::Client, Side::Server), (Side::Server, Side::Client)] {
            let (leg, other) = (to as usize, from as usize);
            if self.states[other] == Wait::Room {
                add(&mut self.without_room[other], now - self.since);
            }
            let stands = legs[leg].unsent > 0 || self.states[other] == Wait::Room;
            let room = u64::from(std::mem::take(&mut self.without_room[other]));
            let bytes = u64::from(std::mem::take(&mut self.without_bytes[other]));
            let waited = if stands && self.stood[leg] { elapsed } else { room };
            let closed = legs[leg].closed_us.saturating_sub(self.closed_us[leg]).min(waited);
            limited[leg][Cause::Reader as usize] = closed;
            limited[leg][Cause::Path as usize] = waited - closed;
            limited[other][Cause::Arrival as usize] = bytes.min(elapsed.saturating_sub(waited));
            (self.stood[leg], self.closed_us[leg]) = (stands, legs[leg].closed_us);
        }
        (self.looked, self.since) = (now, now);
        limited
    }

    /// Whether bytes wait for a leg, as far as that is known.
    pub(crate) fn stands(&self) -> bool {
        self.stood != [false; 2] || self.states.contains(&Wait::Room)
    }
}

fn micros(time: Time) -> u64 {
    time.as_nanos() / 1000
}

fn add(sum: &mut u32, time: Time) {
    *sum = sum.saturating_add(u32::try_from(micros(time)).unwrap_or(u32::MAX));
}

/// A longer silence is not waited for: nobody has anything to send.
const PAUSE: Time = Time::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::wait::Wait::{Bytes, Nothing, Room};

    const UP: [bool; 2] = [true, false];
    const DOWN: [bool; 2] = [false, true];
    const NEITHER: [bool; 2] = [false; 2];

    fn at(ms: u64) -> Time {
        Time::from_secs(100) + Time::from_millis(ms)
    }

    fn ms(limited: [[u64; 3]; 2]) -> [[u64; 3]; 2] {
        limited.map(|leg| leg.map(|us| us / 1000))
    }

    #[test]
    fn time_without_room_is_the_path_s_and_the_rest_who_sends() {
        let (mut waits, idle) = (Waits::since(at(0)), [Look::default(); 2]);
        waits.on_advance(UP, [Bytes, Bytes], at(0));
        assert_eq!(waits.look(idle, at(0)), [[0; 3]; 2]);
        // The server answers after 300 ms, and the client's leg is full at once, for 500 ms.
        waits.on_advance(DOWN, [Bytes, Room], at(300));
        waits.on_advance(DOWN, [Bytes, Bytes], at(800));
        waits.on_advance(DOWN, [Bytes, Bytes], at(900));
        assert_eq!(ms(waits.look(idle, at(900))), [[500, 0, 0], [0, 0, 400]]);
        // Nobody has anything to send for a minute.
        waits.on_advance(UP, [Bytes, Bytes], at(60_900));
        waits.on_advance(DOWN, [Nothing, Bytes], at(61_000));
        assert_eq!(ms(waits.look(idle, at(61_000))), [[0, 0, 0], [0, 0, 100]]);
    }

    #[test]
    fn while_bytes_are_unsent_the_path_holds_them_up_though_the_relay_waits_for_more() {
        let mut waits = Waits::since(at(0));
        let unsent = |closed_us| [Look { unsent: 50_000, closed_us }, Look::default()];
        waits.on_advance(DOWN, [Bytes, Bytes], at(0));
        waits.look(unsent(0), at(0));
        waits.on_advance(DOWN, [Bytes, Bytes], at(90));
        assert_eq!(ms(waits.look(unsent(0), at(100))), [[100, 0, 0], [0; 3]]);
        assert!(waits.stands());
        // The reader has stopped reading.
        assert_eq!(ms(waits.look(unsent(80_000), at(200))), [[20, 80, 0], [0; 3]]);
        assert_eq!(ms(waits.look([Look { unsent: 0, closed_us: 80_000 }, Look::default()], at(300))), [[0; 3]; 2]);
        assert!(!waits.stands());
    }

    #[test]
    fn a_wait_that_lasts_is_counted_at_each_look() {
        let mut waits = Waits::since(at(0));
        waits.on_advance(UP, [Room, Bytes], at(0));
        let look = |closed_us| [Look::default(), Look { unsent: 0, closed_us }];
        assert_eq!(ms(waits.look(look(0), at(1000))), [[0; 3], [1000, 0, 0]]);
        assert_eq!(ms(waits.look(look(3_000_000), at(4000))), [[0; 3], [0, 3000, 0]]);
        waits.on_advance(NEITHER, [Nothing, Bytes], at(4500));
        assert_eq!(ms(waits.look(look(3_000_000), at(9000))), [[0; 3], [500, 0, 0]]);
    }
}
