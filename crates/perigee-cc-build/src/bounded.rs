//! Runs a compiler with limits of its time, and of the memory and the output of each of its processes.
#![allow(clippy::disallowed_methods, reason = "a compiler runs in the machine's time")]

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{kill_process_group, setrlimit, Pid, Resource, Rlimit, Signal};

/// Outcome of a compiler's run.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Its error stream, from the beginning.
    pub messages: String,
}

/// How a compiler ended.
#[derive(Debug)]
pub enum Ending {
    /// By itself, or by one of its limits.
    Itself(ExitStatus),
    /// By force, after [`LONGEST`].
    TooLong,
    /// By force, at the caller's request.
    Stopped,
}

/// Runs a compiler until it ends, `go_on` says no, or its time is over. None of its processes outlives the call.
///
/// # Errors
/// Where it cannot be started.
pub fn run(command: &mut Command, go_on: &mut dyn FnMut() -> bool) -> io::Result<Outcome> {
    // A group of its own: a driver that is ended leaves its compiler and assembler behind.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    // SAFETY: setrlimit is a system call, and nothing else happens between fork and exec.
    unsafe { command.pre_exec(limit) };
    let mut child = command.spawn()?;
    let said = child.stderr.take().map(|stream| thread::spawn(|| beginning_of(stream)));
    let ending = wait(&mut child, go_on);
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        // Fails where all of them have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    let said = said.and_then(|reader| reader.join().ok()).unwrap_or_default();
    Ok(Outcome { ending: ending?, messages: String::from_utf8_lossy(&said).into_owned() })
}

fn wait(child: &mut Child, go_on: &mut dyn FnMut() -> bool) -> io::Result<Ending> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ending::Itself(status));
        }
        if !go_on() {
            return Ok(Ending::Stopped);
        }
        if begun.elapsed() > LONGEST {
            return Ok(Ending::TooLong);
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// Reads the whole stream, so that its writer never blocks, and keeps the beginning.
fn beginning_of(mut stream: ChildStderr) -> Vec<u8> {
    let (mut kept, mut block) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut block) {
        let room = MOST_MESSAGES.saturating_sub(kept.len());
        kept.extend_from_slice(&block[..read.min(room)]);
    }
    kept
}

fn limit() -> io::Result<()> {
    let limits = [
        (Resource::As, MOST_MEMORY),
        (Resource::Fsize, MOST_OUTPUT),
        // Its processes are ended by this where ours was killed and ends nothing any more.
        (Resource::Cpu, MOST_PROCESSOR_S),
        (Resource::Core, 0),
    ];
    for (resource, most) in limits {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// How long a compiler may take; an algorithm takes some tenths of a second.
pub const LONGEST: Duration = Duration::from_secs(300);
/// Processor time of each of its processes, s. Much less than the time by the clock: a machine may have other work.
const MOST_PROCESSOR_S: u64 = 60;
/// Address space of each of its processes, bytes.
const MOST_MEMORY: u64 = 4 << 30;
/// Size of each file that it writes, bytes.
const MOST_OUTPUT: u64 = 64 << 20;
/// What is kept of its messages, bytes.
const MOST_MESSAGES: usize = 256 << 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(3);

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_compiler_says_without_end_is_cut() {
        let outcome = run(&mut shell("yes x | head -c 2000000 >&2"), &mut || true).unwrap();
        assert!(matches!(outcome.ending, Ending::Itself(status) if status.success()));
        assert_eq!(outcome.messages.len(), MOST_MESSAGES);
    }

    #[test]
    fn none_of_its_processes_outlives_a_compiler_that_is_stopped() {
        let mut looks = 0;
        let mut go_on = || {
            looks += 1;
            looks < 20
        };
        // The background process holds the error stream: the call returns only once it is gone too.
        let outcome = run(&mut shell("sleep 1000 & sleep 1000"), &mut go_on).unwrap();
        assert!(matches!(outcome.ending, Ending::Stopped));
    }

    #[test]
    fn a_file_without_end_is_not_written() {
        let folder = std::env::temp_dir().join(format!("perigee-bounded-{}", std::process::id()));
        let outcome = run(&mut shell(&format!("exec cat /dev/zero > {}", folder.display())), &mut || true).unwrap();
        let written = std::fs::metadata(&folder).unwrap().len();
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(written, MOST_OUTPUT);
        assert!(matches!(outcome.ending, Ending::Itself(status) if !status.success()));
    }
}
