//! A wire of two TUN devices and the machine's clock.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, AsRawFd as _};

use perigee_units::Time;
use rustix::thread::set_current_timer_slack;

use crate::clock::{monotonic, timespec};
use crate::driver::{End, Wire};
use crate::tun::Tun;

/// The devices at the ends of links.
#[derive(Debug)]
pub struct TunWire {
    ends: Vec<Tun>,
    /// What is asked of the kernel at each wait: made once.
    asked: Vec<libc::pollfd>,
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
        let asked =
            ends.iter().map(|end| libc::pollfd { fd: end.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 });
        Self { asked: asked.collect(), ends, origin }
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
        let rustix::time::Timespec { tv_sec, tv_nsec } = timespec(longest);
        let timeout = libc::timespec { tv_sec, tv_nsec };
        let count = self.asked.len() as libc::nfds_t;
        // SAFETY: the descriptors are of devices that are open as long as this lives, the timeout lives for the call, and
        // no signal mask is given.
        let answer = unsafe { libc::ppoll(self.asked.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
        match io::Error::last_os_error() {
            error if answer < 0 && error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// Whoever wants a driver to stop waits so long at the most.
const LONGEST_WAIT: Time = Time::from_millis(100);
/// Among real-time threads, low: above all that are none.
const PRIORITY: i32 = 10;
