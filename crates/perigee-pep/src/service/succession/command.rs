//! The commands `upgrade` and `reload`.

use std::env;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{kill_process, Pid, Signal};

use super::new::{check, connect, READY_WORD};
use super::{Standing, RELOAD, RELOADED};
use crate::config::Config;
use crate::error::ServiceError;
use crate::host::channel::Channel;
use crate::host::sys::detached;
use crate::host::tools::{answer, execute};
use crate::service::read;
use crate::tunnel;
use crate::version::VERSION;

/// Starts this program in place of the service that runs; returns what to say.
///
/// # Errors
/// If it does not run afterwards: then the older one does.
pub(crate) fn upgrade(path: &Path) -> Result<String, ServiceError> {
    let config = read(path)?;
    tunnel::check(&config)?;
    // It waits for nothing more of this process.
    let (_, running) = connect(&config)?;
    check(&config, &running)?;
    match unit(running.process) {
        Some(unit) => upgrade_unit(&unit, &config, &running),
        None => replace(path, &running),
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
    replace(path, &running)
}

fn signal(main: Pid, error: &ServiceError) -> Result<String, ServiceError> {
    kill_process(main, Signal::HUP).map_err(|error| ServiceError::system("reload")(error.into()))?;
    Ok(format!("process {} reloads, its log has the result: {error}", main.as_raw_nonzero()))
}

fn ask_to_reload(channel: &Channel) -> Result<String, ServiceError> {
    let answer = channel.send(RELOAD, None).and_then(|()| channel.receive());
    let answer = answer.map_err(ServiceError::system("reload"))?;
    if answer.bytes == RELOADED {
        return Ok("reloaded".to_owned());
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
    let failed = |error: io::Error| {
        ServiceError::Upgrade(format!("version {} goes on; `journalctl -u {unit}` has more: {error}", before.version))
    };
    execute(&format!("systemctl reload {unit}"), None).map_err(failed)?;
    let (_, now) = connect(config)?;
    if now.process == before.process && before.version != VERSION {
        return Err(failed(io::Error::other("the unit is an older one: `systemctl daemon-reload`, then try again")));
    }
    Ok(if now.process == before.process { "reloaded".to_owned() } else { replaced(before) })
}

/// Starts this program as the next process of the service, and waits until it runs.
fn replace(path: &Path, before: &Standing) -> Result<String, ServiceError> {
    let system = || ServiceError::system("starting the new process");
    let mut command = Command::new(env::current_exe().map_err(system())?);
    command.arg(TAKE_OVER).arg(path).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = detached(&mut command).spawn().map_err(system())?;
    let mut said = String::new();
    if let Some(mut output) = child.stdout.take() {
        let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        while poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&timeout))
            .map_err(|error| system()(error.into()))?
            > 0
        {
            let mut part = [0; 1024];
            match output.read(&mut part).map_err(system())? {
                0 => break,
                length => said.push_str(&String::from_utf8_lossy(&part[..length])),
            }
        }
    }
    // It has ended: the service is its child.
    child.wait().map_err(system())?;
    if said.starts_with(READY_WORD) {
        return Ok(replaced(before));
    }
    let (code, reason) = said.trim_end().split_once(' ').unwrap_or(("1", "the new process has ended without a word"));
    let message = format!("version {} goes on: {reason}", before.version);
    Err(if code == "2" { ServiceError::Input(message) } else { ServiceError::Upgrade(message) })
}

fn replaced(before: &Standing) -> String {
    format!("{VERSION} runs; process {} of {} ends its connections", before.process, before.version)
}

/// The command of the next process.
pub(crate) const TAKE_OVER: &str = "take-over";
/// How long the new process may say nothing.
const PATIENCE: Duration = Duration::from_secs(60);
