//! Termination signals to this process, kept for the program that it runs.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use perigee_units::Time;
use rustix::process::Signal;

use crate::os::clock::monotonic;

/// Counts SIGHUP, SIGINT and SIGTERM in all threads while it lives, in place of their previous action.
/// A signal that the process ignored (`nohup`) stays ignored.
#[derive(Debug)]
pub(crate) struct Signals {
    /// For each signal, in the order of [`ENDING`]: the count at the last call, and the last arrival.
    seen: [([u32; 2], Option<Time>); ENDING.len()],
}

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedSignal {
    pub(crate) signal: Signal,
    /// Sent by a process. A terminal sends to its whole foreground group, which includes the program behind the
    /// link.
    pub(crate) is_from_process: bool,
}

impl Signals {
    /// Starts counting.
    pub(crate) fn new() -> io::Result<Self> {
        let mut installed = installed();
        if installed.users == 0 {
            for (signal, before) in ENDING.into_iter().zip(&mut installed.before) {
                *before = count_instead(signal)?;
            }
        }
        installed.users += 1;
        Ok(Self { seen: [0, 1, 2].map(|kind| (counted(kind), None)) })
    }

    /// Signals since the last call. An immediate repetition counts as the same: `timeout` signals a process and then its
    /// group.
    pub(crate) fn arrived(&mut self) -> Vec<ReceivedSignal> {
        self.arrived_by(monotonic())
    }

    fn arrived_by(&mut self, now: Time) -> Vec<ReceivedSignal> {
        let mut arrived = Vec::new();
        for (kind, (seen, last)) in self.seen.iter_mut().enumerate() {
            let counts = counted(kind);
            let before = std::mem::replace(seen, counts);
            if before == counts {
                continue;
            }
            let is_repeated = last.replace(now).is_some_and(|last| now.checked_sub(last).unwrap_or_default() < SAME);
            if !is_repeated {
                let is_from_process = before[FROM_PROCESS] != counts[FROM_PROCESS];
                arrived.push(ReceivedSignal { signal: ENDING[kind], is_from_process });
            }
        }
        arrived
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let mut installed = installed();
        installed.users -= 1;
        if installed.users > 0 {
            return;
        }
        for (signal, before) in ENDING.into_iter().zip(&installed.before) {
            let Some(before) = before else { continue };
            // SAFETY: the action is the one that the kernel returned when it was replaced.
            unsafe { libc::sigaction(signal.as_raw(), before, std::ptr::null_mut()) };
        }
    }
}

/// The previous actions of the signals, and the number of live [`Signals`].
struct Installed {
    users: usize,
    /// In the order of [`ENDING`]; `None`: ignored.
    before: [Option<libc::sigaction>; ENDING.len()],
}

fn installed() -> MutexGuard<'static, Installed> {
    static INSTALLED: Mutex<Installed> = Mutex::new(Installed { users: 0, before: [None; ENDING.len()] });
    INSTALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a signal from now on; returns the previous action.
fn count_instead(signal: Signal) -> io::Result<Option<libc::sigaction>> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, sigaction only reads the present one.
    let before = unsafe {
        if libc::sigaction(signal.as_raw(), std::ptr::null(), before.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        before.assume_init()
    };
    if before.sa_sigaction == libc::SIG_IGN {
        return Ok(None);
    }
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = count;
    let action =
        libc::sigaction { sa_sigaction: handler as usize, sa_flags: libc::SA_SIGINFO | libc::SA_RESTART, ..before };
    // SAFETY: the handler only adds to an atomic, which is async-signal-safe.
    if unsafe { libc::sigaction(signal.as_raw(), &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Some(before))
}

extern "C" fn count(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some(kind) = ENDING.iter().position(|ending| ending.as_raw() == signal) else { return };
    // SAFETY: with SA_SIGINFO the kernel passes the signal's information.
    let origin = unsafe { (*info).si_code };
    // Signals sent by the kernel, such as the terminal's, have a positive code (sigaction(2)).
    COUNTS[kind][usize::from(origin <= 0)].fetch_add(1, Ordering::Relaxed);
}

fn counted(kind: usize) -> [u32; 2] {
    COUNTS[kind].each_ref().map(|count| count.load(Ordering::Relaxed))
}

/// Counts for each signal in the order of [`ENDING`], and for each origin: kernel, process.
static COUNTS: [[AtomicU32; 2]; ENDING.len()] = [const { [const { AtomicU32::new(0) }; 2] }; ENDING.len()];
const FROM_PROCESS: usize = 1;
const ENDING: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::TERM];
/// A second signal of the same kind within this time is a repetition.
const SAME: Time = Time::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn raise(signal: Signal) {
        // SAFETY: the number is a signal's, and its handler only counts.
        assert_eq!(unsafe { libc::raise(signal.as_raw()) }, 0);
    }

    #[test]
    fn a_signal_is_counted_once_and_one_that_follows_at_once_is_the_same() {
        for signal in ENDING {
            // Background processes of a shell ignore some of them, and their children inherit that.
            // SAFETY: no handler is replaced by another one.
            unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
        }
        let mut signals = Signals::new().expect("signals");
        assert_eq!(signals.arrived(), []);
        raise(Signal::TERM);
        assert_eq!(signals.arrived(), [ReceivedSignal { signal: Signal::TERM, is_from_process: true }]);
        raise(Signal::TERM);
        assert_eq!(signals.arrived(), [], "the same one again");
        let mut other = Signals::new().expect("signals");
        raise(Signal::INT);
        // Signals in another thread count too, for every instance.
        std::thread::spawn(|| raise(Signal::HUP)).join().expect("a thread");
        assert_eq!(signals.arrived().len(), 2);
        assert_eq!(other.arrived().len(), 2);
    }
}
