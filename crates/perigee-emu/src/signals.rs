//! Signals that ask this process to end, kept for a program that it runs.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use perigee_units::Time;
use rustix::process::Signal;

use crate::clock::monotonic;

/// SIGHUP, SIGINT and SIGTERM are counted as long as this lives, in whichever thread they arrive, instead of what the
/// process did on them before. A signal that the process ignored (`nohup`) stays ignored.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Of each kind, in the order of [`ENDING`]: how many were counted by the last call, and when one arrived.
    seen: [([u32; 2], Option<Time>); ENDING.len()],
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) signal: Signal,
    /// A process sent it. What a terminal sends has reached all processes of the terminal's foreground, a program that
    /// runs behind the link as well.
    pub(crate) is_from_process: bool,
}

impl Signals {
    /// Begins to count them.
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

    /// Those that arrived since the last call. One that follows another of its kind at once is the same: `timeout`
    /// signals a process and then the process's group.
    pub(crate) fn arrived(&mut self) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        for (kind, (seen, last)) in self.seen.iter_mut().enumerate() {
            let (now, counts) = (monotonic(), counted(kind));
            let before = std::mem::replace(seen, counts);
            if before == counts {
                continue;
            }
            let is_repeated = last.replace(now).is_some_and(|last| now.checked_sub(last).unwrap_or_default() < SAME);
            if !is_repeated {
                let is_from_process = before[FROM_PROCESS] != counts[FROM_PROCESS];
                arrived.push(Arrived { signal: ENDING[kind], is_from_process });
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
            // SAFETY: the action is the one that the kernel returned when ours took its place.
            unsafe { libc::sigaction(signal.as_raw(), before, std::ptr::null_mut()) };
        }
    }
}

/// What the process did on signals before they were counted, and how many [`Signals`] there are.
struct Installed {
    users: usize,
    /// In the order of [`ENDING`]; `None`: ignored then and now.
    before: [Option<libc::sigaction>; ENDING.len()],
}

fn installed() -> MutexGuard<'static, Installed> {
    static INSTALLED: Mutex<Installed> = Mutex::new(Installed { users: 0, before: [None; ENDING.len()] });
    INSTALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a signal from now on; what was done on it before.
fn count_instead(signal: Signal) -> io::Result<Option<libc::sigaction>> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, sigaction only writes the present one.
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
    // SAFETY: the handler does nothing but add to an atomic number, which it may at any time.
    if unsafe { libc::sigaction(signal.as_raw(), &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Some(before))
}

extern "C" fn count(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some(kind) = ENDING.iter().position(|ending| ending.as_raw() == signal) else { return };
    // SAFETY: with SA_SIGINFO the kernel gives what is known of the signal.
    let origin = unsafe { (*info).si_code };
    // What the kernel sends of itself, as a terminal's driver does, has a positive code (sigaction(2)).
    COUNTS[kind][usize::from(origin <= 0)].fetch_add(1, Ordering::Relaxed);
}

fn counted(kind: usize) -> [u32; 2] {
    COUNTS[kind].each_ref().map(|count| count.load(Ordering::Relaxed))
}

/// By kind in the order of [`ENDING`], and by origin: the kernel, a process.
static COUNTS: [[AtomicU32; 2]; ENDING.len()] = [const { [const { AtomicU32::new(0) }; 2] }; ENDING.len()];
const FROM_PROCESS: usize = 1;
const ENDING: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::TERM];
/// Nobody sends a second one on purpose so soon.
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
        let mut signals = Signals::new().expect("signals");
        assert_eq!(signals.arrived(), []);
        raise(Signal::TERM);
        assert_eq!(signals.arrived(), [Arrived { signal: Signal::TERM, is_from_process: true }]);
        raise(Signal::TERM);
        assert_eq!(signals.arrived(), [], "the same one again");
        let mut other = Signals::new().expect("signals");
        raise(Signal::INT);
        // From another thread as well, and for everyone who counts.
        std::thread::spawn(|| raise(Signal::HUP)).join().expect("a thread");
        assert_eq!(signals.arrived().len(), 2);
        assert_eq!(other.arrived().len(), 2);
    }
}
