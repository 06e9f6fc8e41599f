//! Runs a compiler, confined, with limits of its time, and of the memory and the output of each of its processes.
#![allow(clippy::disallowed_methods, reason = "a compiler runs in the machine's time")]

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread::{self, Builder};
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
    /// It ended by itself, or at one of its limits.
    Itself(ExitStatus),
    /// It was killed after [`Limits::longest`].
    TooLong,
    /// It was killed at the caller's request.
    Stopped,
}

/// How much a compiler may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time by the clock.
    pub longest: Duration,
    /// Processor time of each of its processes, s. Its processes are ended by this where ours was killed and ends nothing any
    /// more.
    pub processor_s: u64,
    /// Address space of each of its processes, bytes.
    pub memory: u64,
    /// Size of each file that it writes, bytes.
    pub output: u64,
    /// The most bytes of its messages that are kept.
    pub messages: usize,
}

impl Limits {
    /// Limits for a command line: an algorithm takes some tenths of a second. Much less processor time than time by the clock:
    /// a machine may have other work.
    pub const COMMAND: Self = Self {
        longest: Duration::from_secs(300),
        processor_s: 60,
        memory: 4 << 30,
        output: 64 << 20,
        messages: 256 << 10,
    };
    /// Limits for a server that compiles for others.
    pub const SERVER: Self = Self {
        longest: Duration::from_secs(10),
        processor_s: 11,
        memory: 2 << 30,
        output: 4 << 20,
        messages: 64 << 10,
    };

    fn apply(&self) -> io::Result<()> {
        let limits = [
            (Resource::As, self.memory),
            (Resource::Fsize, self.output),
            (Resource::Cpu, self.processor_s),
            (Resource::Core, 0),
        ];
        for (resource, most) in limits {
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        Ok(())
    }
}

/// Runs a compiler until it ends, `go_on` says no, or its time is over. None of its processes outlives the call.
///
/// # Errors
/// Where it cannot be started.
pub fn run(command: &mut Command, limits: Limits, go_on: &mut dyn FnMut() -> bool) -> io::Result<Outcome> {
    // A group of its own: a driver that is ended leaves its compiler and assembler behind.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    // SAFETY: setrlimit is a system call, and nothing else happens between fork and exec.
    unsafe { command.pre_exec(move || limits.apply()) };
    let mut child = command.spawn()?;
    let most = limits.messages;
    let start = |stream| Builder::new().spawn(move || beginning_of(stream, most));
    let (said, ending) = match child.stderr.take().map(start).transpose() {
        Ok(said) => (said, wait(&mut child, limits.longest, go_on)),
        Err(error) => (None, Err(error)),
    };
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        // Fails where all of them have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    let said = said.and_then(|reader| reader.join().ok()).unwrap_or_default();
    Ok(Outcome { ending: ending?, messages: String::from_utf8_lossy(&said).into_owned() })
}

fn wait(child: &mut Child, longest: Duration, go_on: &mut dyn FnMut() -> bool) -> io::Result<Ending> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ending::Itself(status));
        }
        if !go_on() {
            return Ok(Ending::Stopped);
        }
        if begun.elapsed() > longest {
            return Ok(Ending::TooLong);
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// Reads the whole stream, so that its writer never blocks, and keeps the beginning: `most` bytes.
fn beginning_of(mut stream: ChildStderr, most: usize) -> Vec<u8> {
    let (mut kept, mut block) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut block) {
        let room = most.saturating_sub(kept.len());
        kept.extend_from_slice(&block[..read.min(room)]);
    }
    kept
}

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
        let outcome = run(&mut shell("yes x | head -c 2000000 >&2"), Limits::COMMAND, &mut || true).unwrap();
        assert!(matches!(outcome.ending, Ending::Itself(status) if status.success()));
        assert_eq!(outcome.messages.len(), Limits::COMMAND.messages);
    }

    #[test]
    fn none_of_its_processes_outlives_a_compiler_that_is_stopped() {
        let mut looks = 0;
        let mut go_on = || {
            looks += 1;
            looks < 20
        };
        // The background process holds the error stream: the call returns only once it is gone too.
        let outcome = run(&mut shell("sleep 1000 & sleep 1000"), Limits::COMMAND, &mut go_on).unwrap();
        assert!(matches!(outcome.ending, Ending::Stopped));
    }

    #[test]
    fn a_file_without_end_is_not_written() {
        let folder = std::env::temp_dir().join(format!("perigee-bounded-{}", std::process::id()));
        let mut endless = shell(&format!("exec cat /dev/zero > {}", folder.display()));
        let outcome = run(&mut endless, Limits::COMMAND, &mut || true).unwrap();
        let written = std::fs::metadata(&folder).unwrap().len();
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(written, Limits::COMMAND.output);
        assert!(matches!(outcome.ending, Ending::Itself(status) if !status.success()));
    }
}
