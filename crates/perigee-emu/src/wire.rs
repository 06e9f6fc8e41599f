//! A wire of two TUN devices and the machine's clock.

use std::io;
use std::num::NonZeroU64;

use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;
use rustix::time::{clock_gettime, ClockId};

use crate::driver::{End, Wire};
use crate::tun::Tun;

/// The devices at the two ends of a link.
#[derive(Debug)]
pub struct TunWire {
    first: Tun,
    second: Tun,
    start: Time,
}

impl TunWire {
    /// A wire whose time begins now. The calling thread is the one that will drive it: the kernel is asked to wake it
    /// precisely, and before threads that compute.
    pub fn new(first: Tun, second: Tun) -> Self {
        // Where either is refused, releases are later, which is measured.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let priority = libc::sched_param { sched_priority: PRIORITY };
        // SAFETY: the calling thread, and a parameter that lives for the call.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const priority) };
        Self { first, second, start: monotonic() }
    }

    fn end(&self, end: End) -> &Tun {
        match end {
            End::First => &self.first,
            End::Second => &self.second,
        }
    }
}

impl Wire for TunWire {
    fn now(&mut self) -> Time {
        monotonic().checked_sub(self.start).unwrap_or_default()
    }

    fn receive(&mut self, end: End, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.end(end).receive(buffer)
    }

    fn send(&mut self, end: End, packet: &[u8]) -> io::Result<()> {
        self.end(end).send(packet)
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        let longest =
            until.map_or(LONGEST_WAIT, |until| until.checked_sub(self.now()).unwrap_or_default().min(LONGEST_WAIT));
        let timeout =
            Timespec { tv_sec: (longest.as_nanos() / NANOS) as i64, tv_nsec: (longest.as_nanos() % NANOS) as _ };
        let mut ends = [PollFd::new(&self.first, PollFlags::IN), PollFd::new(&self.second, PollFlags::IN)];
        match poll(&mut ends, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn monotonic() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * NANOS + now.tv_nsec as u64)
}

/// Among real-time threads, low: above all that are none.
const PRIORITY: i32 = 10;
const NANOS: u64 = 1_000_000_000;
/// Whoever wants a driver to stop waits so long at the most.
const LONGEST_WAIT: Time = Time::from_millis(100);
