//! Threads of the service, which a limit of this host may refuse.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread.
///
/// # Errors
/// If the host refuses one more, with the fix.
pub(crate) fn start_thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(run).map_err(|error| {
        let fix = "raise the limit of threads (`TasksMax=` and `LimitNPROC=` in a unit, `ulimit -u` in a shell)";
        io::Error::new(error.kind(), format!("no more threads: {error}; {fix}"))
    })
}
