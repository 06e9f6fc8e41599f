//! The commands `upgrade` and `reload`.

use std::env;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::{retry_on_intr, Errno};
use rustix::process::{kill_process, kill_process_group, Pid, Signal};

use super::new::{check, connect, READY_WORD};
use super::{Standing, NEW_PROCESS, PATIENCE, RELOAD, RELOADED};
use crate::config::Config;
use crate::error::ServiceError;
use crate::host::channel::Channel;
use crate::host::sys::detached;
use crate::host::tools::{answer, execute};
use crate::service::checks::{read, read_and_check};
use crate::version::VERSION;

/// Starts this program in place of the service that runs; returns what to say.
///
/// # Errors
/// If it does not run afterwards: then the older one does.
pub(crate) fn upgrade(path: &Path) -> Result<String, ServiceError> {
    let config = read_and_check(path)?;
    // It waits for nothing more of this process.
    let (_, running) = connect(&config)?;
    check(&config, &running)?;
    match unit(running.process) {
        Some(unit) => upgrade_unit(&unit, &config, &running),
        None => replace(path, &config),
    }
}

/// Has the service read its configuration again, or replaces it if it is another version; returns what to say.
///
/// # Errors
/// If that is refused: then the service goes on as it was.
pub(crate) fn reload(path: &Path) -> Result<String, ServiceError> {
    let config = read(path)?;
    let main = env::var_os("MAINPID").and_then(|id| Pid::from_raw(id.to_str()?.parse().ok()?));
    let (channel, running) = match (connect(&config), main) {
        // Called by systemd, for a service without control socket, or of a version that does not answer.
        (Err(error), Some(main)) => return signal(main, &error),
        (connected, _) => connected?,
    };
    if running.version == VERSION {
        return ask_to_reload(&channel);
    }
    drop(channel);
    check(&config, &running)?;
    replace(path, &config)
}

fn signal(main: Pid, error: &ServiceError) -> Result<String, ServiceError> {
    kill_process(main, Signal::HUP).map_err(|error| ServiceError::system("reload")(error.into()))?;
    Ok(format!("process {} reloads, its log has the result: {error}", main.as_raw_nonzero()))
}

fn ask_to_reload(channel: &Channel) -> Result<String, ServiceError> {
    let answer = channel.send(RELOAD, None).and_then(|()| channel.receive());
    let answer = answer.map_err(ServiceError::system("reload"))?;
    if answer.text().starts_with(RELOADED) {
        return Ok(answer.text().to_owned());
    }
    Err(ServiceError::Input(format!("the old configuration stays: {}", answer.text())))
}

/// The unit of systemd whose main process this is, unless this process is of it too.
fn unit(process: u32) -> Option<String> {
    let group = |process: &str| fs::read_to_string(format!("/proc/{process}/cgroup")).ok();
    let (theirs, own) = (group(&process.to_string())?, group("self")?);
    let unit = theirs.trim_end().rsplit('/').next().filter(|unit| unit.ends_with(".service") && theirs != own)?;
    let main = answer(&format!("systemctl show --property=MainPID --value {unit}"), None).ok()?;
    (main.trim() == process.to_string()).then(|| unit.to_owned())
}

/// Has systemd start this program with the rights and limits of the unit: its reload calls [`reload`].
fn upgrade_unit(unit: &str, config: &Config, before: &Standing) -> Result<String, ServiceError> {
    let failed = |error: io::Error| match who_runs(config) {
        Ok(runs) => ServiceError::Upgrade(format!("{runs}; `journalctl -u {unit}` has more: {error}")),
        Err(error) => error,
    };
    execute(&format!("systemctl reload {unit}"), None).map_err(failed)?;
    let (_, now) = connect(config)?;
    if now.process == before.process && before.version != VERSION {
        return Err(failed(io::Error::other("the unit is an older one: `systemctl daemon-reload`, then try again")));
    }
    Ok(if now.process == before.process {
        "reloaded".to_owned()
    } else {
        replaced(&before.process.to_string(), &before.version)
    })
}

/// Starts this program as the next process of the service, and waits until it runs.
fn replace(path: &Path, config: &Config) -> Result<String, ServiceError> {
    let system = || ServiceError::system("starting the new process");
    let mut command = Command::new(env::current_exe().map_err(system())?);
    command.arg(TAKE_OVER).arg(path).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = detached(&mut command).spawn().map_err(system())?;
    let said = child.stdout.take().map_or_else(|| Ok(Some(String::new())), said).map_err(system())?;
    // It has ended: the service is its child.
    child.wait().map_err(system())?;
    let Some(said) = said else {
        let killed = Pid::from_raw(child.id() as i32).map(|group| kill_process_group(group, Signal::KILL));
        let is_left = killed.is_some_and(|killed| killed == Err(Errno::PERM));
        let hint = if is_left { ", and cannot be killed: `kill -9` its `take-over`" } else { "" };
        let seconds = PATIENCE.as_nanos() / 1_000_000_000;
        let message = format!("{}: {NEW_PROCESS} did not answer in {seconds} s{hint}", who_runs(config)?);
        return Err(ServiceError::Upgrade(message));
    };
    let said = said.trim().split_once(' ');
    if let Some((READY_WORD, before)) = said {
        let (process, version) = before.split_once(' ').unwrap_or((before, ""));
        return Ok(replaced(process, version));
    }
    let (code, reason) = said.unwrap_or(("1", "the new process has ended without a word"));
    let message = format!("{}: {reason}", who_runs(config)?);
    Err(if code == "2" { ServiceError::Input(message) } else { ServiceError::Upgrade(message) })
}

/// Reads the output of the new process to its end; `None`: for a time it has said nothing.
fn said(mut output: ChildStdout) -> io::Result<Option<String>> {
    // Later than the old process, whose log then has the reason.
    let timeout = Timespec { tv_sec: (PATIENCE.as_nanos() / 1_000_000_000) as i64 + 1, tv_nsec: 0 };
    let mut said = String::new();
    loop {
        let mut polled = [PollFd::new(&output, PollFlags::IN)];
        if retry_on_intr(|| poll(&mut polled, Some(&timeout)))? == 0 {
            return Ok(None);
        }
        let mut part = [0; 1024];
        match output.read(&mut part)? {
            0 => return Ok(Some(said)),
            length => said.push_str(&String::from_utf8_lossy(&part[..length])),
        }
    }
}

/// After a failure; an error if that is no process.
fn who_runs(config: &Config) -> Result<String, ServiceError> {
    match connect(config) {
        Ok((_, running)) => Ok(format!("version {} goes on", running.version)),
        Err(ServiceError::Silent(_)) => {
            Err(ServiceError::Silent("the old process has ended, and no service runs: start it".to_owned()))
        }
        Err(error) => Err(error),
    }
}

fn replaced(process: &str, version: &str) -> String {
    format!("{VERSION} runs; process {process} of {version} ends its connections")
}

/// The command of the next process.
pub(crate) const TAKE_OVER: &str = "take-over";
