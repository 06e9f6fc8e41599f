//! A wire of two TUN devices and the machine's clock.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use perigee_units::Time;

use crate::clock::{monotonic, sleep, timespec, wake_precisely};
use crate::driver::{End, Wire};
use crate::tun::Tun;

/// The devices at the ends of links.
#[derive(Debug)]
pub struct TunWire {
    ends: Vec<Tun>,
    /// What is asked of the kernel at each wait: made once.
    asked: Vec<libc::pollfd>,
    /// By end: packets may wait there.
    ready: Vec<bool>,
    /// How long before an instant the waiting thread stays awake.
    awake: Time,
    /// When it slept last.
    rested: Time,
    origin: Time,
}

impl TunWire {
    /// A wire whose time began at `origin`, as [`crate::monotonic`] gives it; its ends are numbered as given. The calling
    /// thread is the one that will drive it: the kernel is asked to wake it precisely, and before threads that compute.
    pub fn new(ends: Vec<Tun>, origin: Time) -> Self {
        wake_precisely(PRIORITY);
        let asked =
            ends.iter().map(|end| libc::pollfd { fd: end.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 });
        let ready = vec![true; ends.len()];
        let spare = rustix::thread::sched_getaffinity(None).is_ok_and(|cores| cores.count() > 1);
        Self {
            asked: asked.collect(),
            ready,
            awake: if spare { AWAKE } else { Time::ZERO },
            rested: Time::ZERO,
            ends,
            origin,
        }
    }

    /// Asks the kernel at which ends packets wait, for so long at the most; whether there is any.
    fn poll(&mut self, longest: Time) -> io::Result<bool> {
        let rustix::time::Timespec { tv_sec, tv_nsec } = timespec(longest);
        let timeout = libc::timespec { tv_sec, tv_nsec };
        let count = self.asked.len() as libc::nfds_t;
        // SAFETY: the descriptors are of devices that are open as long as this lives, the timeout lives for the call, and
        // no signal mask is given.
        let answer = unsafe { libc::ppoll(self.asked.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
        if answer < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        for (ready, asked) in self.ready.iter_mut().zip(&self.asked) {
            *ready = asked.revents != 0;
        }
        Ok(answer > 0)
    }
}

impl Wire for TunWire {
    fn now(&mut self) -> Time {
        monotonic().checked_sub(self.origin).unwrap_or_default()
    }

    fn receive(&mut self, end: End, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.ready[end] {
            return Ok(None);
        }
        let received = self.ends[end].receive(buffer)?;
        self.ready[end] = received.is_some();
        Ok(received)
    }

    fn send(&mut self, end: End, packet: &[u8]) -> io::Result<()> {
        self.ends[end].send(packet)
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        let until = until.unwrap_or(Time::MAX).min(self.now() + LONGEST_WAIT);
        loop {
            let now = self.now();
            if now.checked_sub(self.rested).unwrap_or_default() > LONGEST_AWAKE {
                sleep(REST);
                self.rested = self.now();
            }
            let left = until.checked_sub(now).unwrap_or_default();
            // To fall asleep and be woken takes longer than the time between two packets of a fast link.
            let asleep = left.checked_sub(self.awake).unwrap_or_default();
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

/// Whoever wants a driver to stop waits so long at the most.
const LONGEST_WAIT: Time = Time::from_millis(100);
/// To sleep costs some ten microseconds, and more where the kernel is a guest.
const AWAKE: Time = Time::from_micros(40);
/// The kernel gives a twentieth of each core to threads that are not real-time ones (sched(7)): where they do not get it in small
/// change, all releases stand still for 50 ms at a time.
const LONGEST_AWAKE: Time = Time::from_millis(1);
const REST: Time = Time::from_micros(60);
/// Among real-time threads, low: above all that are none.
const PRIORITY: i32 = 10;
