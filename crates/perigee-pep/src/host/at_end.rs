//! Work for the end of the process: the host would keep rules and files, and accounting has lines to write.
//!
//! A panic of any thread is an end, too. It does not unwind, and so needs no table of what each function would have to undo, nor do
//! other threads go on with half of a state: its hook does the work of all that is left, in the thread that panicked, and exits.

use std::panic;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use perigee_units::Time;

use super::clock::monotonic;

/// Work that is done when this is dropped, or after a panic.
#[derive(Debug)]
pub(crate) struct AtEnd(usize);

type Work = Box<dyn FnOnce() + Send>;

impl AtEnd {
    pub(crate) fn new(work: impl FnOnce() + Send + 'static) -> Self {
        let mut all = all();
        all.push(Some(Box::new(work)));
        Self(all.len() - 1)
    }

    /// Leaves it undone: it is another process's now.
    pub(crate) fn leave(self) {
        drop(self.take());
    }

    fn take(&self) -> Option<Work> {
        all().get_mut(self.0)?.take()
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        // A panic meanwhile waits for it, so that the process does not end in the midst of it.
        let _changing = changing();
        if let Some(work) = self.take() {
            work();
        }
    }
}

/// Held for each change of what the work of [`AtEnd`] removes. Once a panic ends the process, nobody gets it any more: the thread waits.
pub(crate) fn changing() -> MutexGuard<'static, ()> {
    let held = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    if !IS_ENDING.load(Ordering::SeqCst) {
        return held;
    }
    drop(held);
    wait_for_end()
}

/// Lets a thread do nothing more once a panic ends the process.
pub(crate) fn rest_if_ending() {
    if IS_ENDING.load(Ordering::SeqCst) {
        wait_for_end();
    }
}

fn wait_for_end() -> ! {
    loop {
        thread::park();
    }
}

/// Has a panic of any thread end this process with a failure, after the work of [`AtEnd`], the newest first.
pub(crate) fn end_by_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        // The first of several ends the process.
        if IS_ENDING.swap(true, Ordering::SeqCst) {
            wait_for_end();
        }
        // Whatever the work waits for; without a thread it waits on.
        let _ = thread::Builder::new().name("pep-end".to_owned()).spawn(|| {
            let deadline = monotonic() + LONGEST;
            while monotonic() < deadline {
                thread::park_timeout(LOOK);
            }
            process::exit(1);
        });
        let _held = held_in_the_end();
        while let Some(work) = newest() {
            work();
        }
        // Last, since it waits for a reader of the log.
        print(panicked);
        process::exit(1);
    }));
}

/// Waits for a change under way. The thread that panicked may hold it itself, and then waits in vain.
fn held_in_the_end() -> Option<MutexGuard<'static, ()>> {
    let deadline = monotonic() + LONGEST_CHANGE;
    while monotonic() < deadline {
        match CHANGES.try_lock() {
            Ok(held) => return Some(held),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => thread::park_timeout(LOOK),
        }
    }
    None
}

fn newest() -> Option<Work> {
    all().iter_mut().rev().find_map(Option::take)
}

fn all() -> MutexGuard<'static, Vec<Option<Work>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

static ALL: Mutex<Vec<Option<Work>>> = Mutex::new(Vec::new());
static CHANGES: Mutex<()> = Mutex::new(());
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// After a panic the process ends by then.
const LONGEST: Time = Time::from_secs(5);
/// How long the end waits for a change under way.
const LONGEST_CHANGE: Time = Time::from_secs(2);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;
    use std::path::Path;
    use std::process::Command;
    use std::thread::{scope, Builder};

    use super::*;

    /// Has work to add words to the file, and panics in two threads.
    fn panic_with(file: &Path) {
        end_by_panic();
        let add = |word: &'static str| {
            let file = file.to_owned();
            AtEnd::new(move || write!(OpenOptions::new().append(true).open(file).unwrap(), "{word} ").unwrap())
        };
        let [older, left, done, newer] = ["older", "left", "done", "newer"].map(add);
        left.leave();
        drop(done);
        let file = file.to_owned();
        let change = move || loop {
            // As the service does: what is removed is put back at once.
            let _changing = changing();
            if fs::read_to_string(&file).unwrap().contains("older") {
                fs::write(&file, "put back").unwrap();
            }
        };
        Builder::new().spawn(change).unwrap();
        scope(|scope| {
            for _ in 0..2 {
                Builder::new().name("pep-broken".to_owned()).spawn_scoped(scope, || panic!("it is broken")).unwrap();
            }
        });
        drop([older, newer]);
    }

    #[test]
    fn a_panic_of_any_thread_ends_the_process_with_a_failure_after_the_work_that_is_left() {
        if let Some(file) = env::var_os(TOLD) {
            return panic_with(Path::new(&file));
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("words");
        fs::write(&file, "").unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        let output = command.args(["host::at_end::tests", "--nocapture"]).env(TOLD, &file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.matches("it is broken").count()), (Some(1), 1), "{said}");
        assert!(said.contains("thread 'pep-broken'"), "{said}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "done newer older ");
    }

    /// Tells a child of the test its file.
    const TOLD: &str = "PERIGEE_PEP_TEST_WORDS";
}
