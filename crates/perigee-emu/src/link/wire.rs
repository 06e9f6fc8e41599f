//! The wire of TUN devices, on the machine's clock.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use perigee_units::Time;
use perigee_wire::{Departing, Joined, Offload};

use crate::link::driver::{End, Wire};
use crate::os::clock::{monotonic, sleep, timespec, wake_precisely};
use crate::os::tun::Tun;

/// The devices at the ends of links.
#[derive(Debug)]
pub struct TunWire {
    ends: Vec<Device>,
    /// Descriptors to poll, built once.
    asked: Vec<libc::pollfd>,
    /// Whether other threads have cores of their own.
    spare: bool,
    /// Until when it sleeps before each batch of releases, where other threads have no core of their own.
    crowded_until: Time,
    /// When it last slept.
    rested: Time,
    origin: Time,
}

/// The device at an end.
#[derive(Debug)]
struct Device {
    tun: Tun,
    /// Whether packets may wait there.
    is_ready: bool,
    /// The packet read last, which is not used up.
    departing: Departing,
    /// Until when the driver counts as behind.
    behind_until: Time,
    /// Packets that leave together.
    joined: Joined,
}

impl Device {
    /// Writes what was joined.
    fn write_joined(&mut self) -> io::Result<()> {
        self.joined.take().map_or(Ok(()), |(offload, packet)| self.tun.send(packet, offload))
    }
}

impl TunWire {
    /// A wire with its time zero at `origin` of [`crate::monotonic`]. The calling thread becomes the driver's: it asks
    /// the kernel for precise wake-ups and real-time priority.
    pub fn new(ends: Vec<Tun>, origin: Time) -> Self {
        wake_precisely(PRIORITY);
        let asked =
            ends.iter().map(|end| libc::pollfd { fd: end.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 });
        let spare = rustix::thread::sched_getaffinity(None).is_ok_and(|cores| cores.count() > 1);
        let asked = asked.collect();
        let device = |tun| Device {
            tun,
            is_ready: true,
            departing: Departing::default(),
            behind_until: Time::ZERO,
            joined: Joined::default(),
        };
        let ends = ends.into_iter().map(device).collect();
        Self { asked, ends, spare, crowded_until: Time::ZERO, rested: Time::ZERO, origin }
    }

    /// How long to sleep until an event this far away.
    fn sleep_of(&self, left: Time) -> Time {
        match left.checked_sub(AWAKE) {
            _ if !self.spare && left > Time::ZERO => left.max(REST),
            Some(asleep) if self.spare && asleep >= SHORTEST_SLEEP => asleep,
            _ => Time::ZERO,
        }
    }

    /// Polls the ends for at most `longest`; returns whether packets wait.
    fn poll(&mut self, longest: Time) -> io::Result<bool> {
        let rustix::time::Timespec { tv_sec, tv_nsec } = timespec(longest);
        let timeout = libc::timespec { tv_sec, tv_nsec };
        let count = self.asked.len() as libc::nfds_t;
        // SAFETY: the descriptors belong to devices that live as long as `self`, the timeout lives for the call, and no
        // signal mask is given.
        let answer = unsafe { libc::ppoll(self.asked.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
        if answer < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        for (end, asked) in self.ends.iter_mut().zip(&self.asked) {
            end.is_ready = asked.revents != 0;
        }
        Ok(answer > 0)
    }
}

impl Wire for TunWire {
    fn now(&mut self) -> Time {
        monotonic().checked_sub(self.origin).unwrap_or_default()
    }

    fn receive(&mut self, end: End, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Device { tun, is_ready, departing, .. } = &mut self.ends[end];
        loop {
            if let Some(size) = departing.next(buffer) {
                return Ok(Some(size));
            }
            *is_ready = *is_ready && tun.receive(departing)?;
            if !*is_ready {
                return Ok(None);
            }
        }
    }

    fn send(&mut self, end: End, packet: &[u8], late: Time) -> io::Result<()> {
        let now = self.now();
        let device = &mut self.ends[end];
        if late >= BEHIND {
            device.behind_until = now + CATCH_UP;
        }
        if now < device.behind_until {
            if device.joined.push(packet) {
                return Ok(());
            }
            device.write_joined()?;
            device.joined.follow(packet);
        }
        device.tun.send(packet, Offload::default())
    }

    fn flush(&mut self, end: End) -> io::Result<()> {
        if self.ends[end].joined.len() >= CROWD {
            self.crowded_until = self.now() + CATCH_UP;
        }
        self.ends[end].write_joined()
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        let now = self.now();
        let mut until = until.unwrap_or(Time::MAX).min(now + LONGEST_WAIT);
        if !self.spare && until > Time::ZERO && now < self.crowded_until {
            until = until.max(now + REST);
        }
        loop {
            let now = self.now();
            if now.checked_sub(self.rested).unwrap_or_default() > LONGEST_AWAKE {
                sleep(REST);
                self.rested = self.now();
            }
            let left = until.checked_sub(now).unwrap_or_default();
            let asleep = self.sleep_of(left);
            let ready = self.poll(asleep)?;
            if asleep > Time::ZERO && !ready {
                self.rested = self.now();
            }
            if ready || left == Time::ZERO {
                return Ok(());
            }
        }
    }
}

/// From this lateness on, and for a while, consecutive segments that are due leave together, so that a driver that has fallen behind
/// catches up: the kernel receives them as from a network card whose interrupt comes late.
const BEHIND: Time = Time::from_micros(30);
const CATCH_UP: Time = Time::from_millis(1);
/// Segments that are due at once on a link of more than 1 Gbit/s, on one core. A driver that wrote each by itself there would never sleep,
/// and would starve the senders of the core.
const CROWD: usize = 8;
/// Longest wait, after which the driver asks its observer again.
const LONGEST_WAIT: Time = Time::from_millis(100);
/// A sleep and wake-up take about ten microseconds, and more on a virtual machine: longer than the time between two
/// packets of a fast link. With a core to spare, the thread stays awake for events nearer than this; without one it
/// sleeps, and is late for some packets.
const AWAKE: Time = Time::from_micros(40);
const SHORTEST_SLEEP: Time = Time::from_micros(20);
/// The kernel reserves 5 % of each core for ordinary threads (sched(7)). A driver that never sleeps would lose it in
/// one piece, and all releases would stall for 50 ms.
const LONGEST_AWAKE: Time = Time::from_millis(1);
const REST: Time = Time::from_micros(60);
/// A low real-time priority: above all ordinary threads.
const PRIORITY: i32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_waits_are_awake_where_a_core_is_spare_and_never_short_where_none_is() {
        let mut wire = TunWire::new(Vec::new(), Time::ZERO);
        let us = Time::from_micros;
        wire.spare = true;
        let sleeps = [0, 12, 59, 60, 500].map(|left| wire.sleep_of(us(left)));
        assert_eq!(sleeps, [us(0), us(0), us(0), us(20), us(460)]);
        wire.spare = false;
        let sleeps = [0, 12, 500].map(|left| wire.sleep_of(us(left)));
        assert_eq!(sleeps, [us(0), REST, us(500)]);
    }

    #[test]
    fn a_wait_is_over_no_sooner_than_asked_and_what_is_over_is_not_waited_for() {
        let mut wire = TunWire::new(Vec::new(), monotonic());
        for spare in [false, true] {
            wire.spare = spare;
            let until = wire.now() + Time::from_millis(2);
            wire.wait(Some(until)).unwrap();
            assert!(wire.now() >= until);
            wire.wait(Some(Time::ZERO)).unwrap();
        }
    }
}
