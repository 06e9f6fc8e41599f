//! A second SIGINT or SIGTERM ends the process, whatever it is doing.
//!
//! Python answers a signal once its interpreter goes on; a process that hangs below it would never be ended by one.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pyo3::prelude::*;

/// Python's handler of each of [`SIGNALS`].
static HANDLERS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static SEEN: AtomicU32 = AtomicU32::new(0);
const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];
/// Exit code of what was interrupted.
const EXIT_INTERRUPTED: libc::c_int = 130;
/// With the cursor shown again, which a progress bar hides.
const SAID: &[u8] = b"\x1b[?25h\nerror: ended at the second signal\n";
const SAID_PLAIN: &[u8] = b"error: ended at the second signal\n";

/// From now on the second of these signals ends the process. Handlers that Python sets later are without it.
#[pyfunction]
pub(crate) fn end_at_second_signal() -> PyResult<()> {
    for (signal, python) in SIGNALS.into_iter().zip(&HANDLERS) {
        // SAFETY: all zeros are an action; the calls read and write only it.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        // One that is ignored, as in the background of a script, stays so.
        if matches!(action.sa_sigaction, libc::SIG_IGN | libc::SIG_DFL) || action.sa_sigaction == handler_address() {
            continue;
        }
        python.store(action.sa_sigaction, Ordering::Relaxed);
        action.sa_sigaction = handler_address();
        // SAFETY: the handler does only what a handler may.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
    }
    Ok(())
}

fn handler_address() -> libc::sighandler_t {
    on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t
}

extern "C" fn on_signal(signal: libc::c_int) {
    if SEEN.fetch_add(1, Ordering::Relaxed) > 0 {
        // SAFETY: these may be called in a handler, and the last does not return.
        unsafe {
            let said = if libc::isatty(2) == 1 { SAID } else { SAID_PLAIN };
            libc::write(2, said.as_ptr().cast(), said.len());
            libc::_exit(EXIT_INTERRUPTED);
        }
    }
    let place = usize::from(signal != SIGNALS[0]);
    let python = HANDLERS[place].load(Ordering::Relaxed);
    if python != 0 {
        // SAFETY: the address of the handler that Python had set, which takes the signal's number.
        let python = unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(python) };
        python(signal);
    }
}
