//! A wire of two TUN devices and the machine's clock.

use std::io;
use std::num::NonZeroU64;

use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use crate::clock::{monotonic, timespec};
use crate::driver::{End, Wire};
use crate::tun::Tun;

/// The devices at the ends of links.
#[derive(Debug)]
pub struct TunWire {
    ends: Vec<Tun>,
    origin: Time,
}

impl TunWire {
    /// A wire whose time began at `origin`, as [`crate::monotonic`] gives it; its ends are numbered as given. The calling
    /// thread is the one that will drive it: the kernel is asked to wake it precisely, and before threads that compute.
    pub fn new(ends: Vec<Tun>, origin: Time) -> Self {
        // Where either is refused, releases are later, which is measured.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let priority = libc::sched_param { sched_priority: PRIORITY };
        // SAFETY: the calling thread, and a parameter that lives for the call.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const priority) };
        Self { ends, origin }
    }
}

impl Wire for TunWire {
    fn now(&mut self) -> Time {
        monotonic().checked_sub(self.origin).unwrap_or_default()
    }

    fn receive(&mut self, end: End, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.ends[end].receive(buffer)
    }

    fn send(&mut self, end: End, packet: &[u8]) -> io::Result<()> {
        self.ends[end].send(packet)
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        let longest =
            until.map_or(LONGEST_WAIT, |until| until.checked_sub(self.now()).unwrap_or_default().min(LONGEST_WAIT));
        let timeout = timespec(longest);
        let mut ends: Vec<_> = self.ends.iter().map(|end| PollFd::new(end, PollFlags::IN)).collect();
        match poll(&mut ends, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whoever wants a driver to stop waits so long at the most.
const LONGEST_WAIT: Time = Time::from_millis(100);
/// Among real-time threads, low: above all that are none.
const PRIORITY: i32 = 10;
