//! The process that is replaced.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::mpsc::channel as queue;

use perigee_units::Time;
use rustix::event::Timespec;

use super::{
    expect, numbers, reason, Standing, ALL, CONTROL, DEVICE, DONE, LISTENER, LOCK, LOG, LOST, METRICS, NEW_PROCESS,
    OFFER, OLDER, PATIENCE, READY, RELOAD, RUNS, SUCCESSORS, TAKEN, UNWRITTEN, WAITS, YOURS,
};
use crate::event_loop::Command;
use crate::host::at_end::rest_if_ending;
use crate::host::channel::{Channel, Message};
use crate::host::clock::monotonic;
use crate::host::intercept::{routes, Interception};
use crate::service::accounting::Unwritten;
use crate::service::answers::Answers;
use crate::service::hold::{self, Waited};
use crate::service::worker::Order;
use crate::service::Service;
use crate::shared::handover::Left;
use crate::shared::log::quoted;
use crate::version::VERSION;

impl Service {
    /// Answers a process that has connected. The time that it takes is bounded by that of each message, [`PATIENCE`].
    pub(in crate::service) fn answer(&mut self, channel: Channel, answers: &mut Answers) {
        let standing = Standing {
            version: VERSION.to_owned(),
            process: std::process::id(),
            is_ending: self.deadline.is_some(),
            intercepts: self.config.transparent.as_ref().map(numbers),
            with_zone: self.interception.as_ref().is_some_and(Interception::has_zone),
            routes: self.config.transparent.as_ref().map_or_else(Vec::new, |one| routes(&self.config, one)),
        };
        let asked = channel.send(standing.to_string().as_bytes(), None).and_then(|()| self.hear(&channel, answers));
        let asked = match asked {
            Ok(asked) => asked,
            Err(error) => {
                // Who asks for nothing else has gone.
                if error.kind() == io::ErrorKind::TimedOut {
                    let reason = reason(&channel, NEW_PROCESS, &error);
                    self.shared.log.line(format!("this process goes on: {reason}"));
                }
                return;
            }
        };
        let answer = match asked.text().split_once(' ') {
            _ if standing.is_ending => "the service is being stopped".to_owned(),
            Some((OFFER, version)) => return self.hand_over(channel, answers, version),
            None if asked.bytes == RELOAD => match self.reload_and_tell() {
                Ok(said) => said,
                Err(error) => error.to_string(),
            },
            _ => "it asks for what this version does not know".to_owned(),
        };
        let _ = channel.send(answer.as_bytes(), None);
    }

    /// Takes over what older processes have not written of accounting; the log has it where this one has no accounts, or they wait.
    pub(in crate::service) fn inherit(&mut self) {
        let Self { succession, shared, .. } = self;
        succession.hear_older(|message| match message.text().split_once(' ')? {
            (UNWRITTEN, line) => {
                if !shared.records.as_ref().is_some_and(|records| records.keep(line)) {
                    shared.log.line(line.to_owned());
                }
                None
            }
            (LOST, lines) => {
                shared.stats.unwritten.add(lines.parse().unwrap_or(0));
                Some(TAKEN)
            }
            _ => None,
        });
    }

    fn hand_over(&mut self, channel: Channel, answers: &mut Answers, version: &str) {
        let process = channel.peer().map(|peer| peer.pid.as_raw_nonzero().get());
        let offered = process.and_then(|process| {
            self.offer(&channel, answers)?;
            expect(&self.hear(&channel, answers)?, READY)?;
            self.give(&channel, answers, process).map(|pause| (process, pause))
        });
        match offered {
            Ok((process, pause)) => {
                let words = format!("version={} process={process} pause_ms={}", quoted(version), pause.as_millis());
                self.retire(channel, answers, &words);
            }
            Err(error) => {
                let (version, reason) = (quoted(version), reason(&channel, NEW_PROCESS, &error));
                // If it lives it learns that it is too late.
                let _ = channel.send(reason.as_bytes(), None);
                self.shared.log.line(format!("this process goes on: version={version} did not take over: {reason}"));
            }
        }
    }

    /// Waits for the next message of a new process, and answers queries meanwhile.
    fn hear(&self, channel: &Channel, answers: &mut Answers) -> io::Result<Message> {
        let deadline = monotonic() + PATIENCE;
        while monotonic() < deadline {
            rest_if_ending();
            self.inform(answers);
            self.kept.manager.tell("WATCHDOG=1");
            if let Some(message) = channel.within(LOOK)? {
                return Ok(message);
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Sends all sockets but those of connections.
    fn offer(&self, channel: &Channel, answers: &Answers) -> io::Result<()> {
        let send = |name: &str, socket: Option<BorrowedFd<'_>>| {
            socket.map_or(Ok(()), |socket| channel.send(name.as_bytes(), Some(socket)))
        };
        self.listeners.iter().try_for_each(|listener| send(LISTENER, Some(listener.socket.as_fd())))?;
        self.succession.older.iter().try_for_each(|(older, _)| send(OLDER, Some(older.as_fd())))?;
        let [control, successors, metrics] = answers.listening();
        let (lock, device) = (self.kept.lock.as_ref(), self.hold.as_ref().map(hold::Hold::device));
        for (name, socket) in [
            (CONTROL, control),
            (SUCCESSORS, successors),
            (METRICS, metrics),
            (LOCK, lock.map(|lock| lock.as_fd())),
            (DEVICE, device),
            (LOG, Some(io::stderr().as_fd())),
        ] {
            send(name, socket)?;
        }
        channel.send(ALL, None)
    }

    /// Accepts no more, and goes on with that if the new process does not run. Returns how long nobody has accepted.
    fn give(&mut self, channel: &Channel, answers: &mut Answers, process: i32) -> io::Result<Time> {
        let began = monotonic();
        let (done, rested) = queue();
        self.workers.iter().for_each(|worker| worker.orders().give(Command::Do(Order::Rest(done.clone()))));
        drop(done);
        // One answer of each worker; none if it has failed, which the next check of the threads reports.
        rested.into_iter().for_each(drop);
        let waited = self.hold.take().map(|hold| hold.stop(&self.shared)).unwrap_or_default();
        let given = self.conclude(channel, answers, &waited.clients, process);
        if given.is_err() {
            self.take_back(waited);
        }
        given.map(|()| monotonic() - began)
    }

    fn conclude(&self, channel: &Channel, answers: &mut Answers, clients: &[Left], process: i32) -> io::Result<()> {
        for Left { syn, server, began, deadline, connected } in clients {
            let times = [*began, *deadline, connected.unwrap_or_default()].map(|time| time.as_nanos().to_string());
            let message = [format!("{WAITS} {} ", times.join(" ")).as_bytes(), syn].concat();
            channel.send(&message, Some(server.as_fd()))?;
        }
        channel.send(YOURS, None)?;
        expect(&self.hear(channel, answers)?, RUNS)?;
        // The first message of the new process to the manager follows.
        self.kept.manager.tell(&format!("MAINPID={process}"));
        channel.send(DONE, None)
    }

    fn take_back(&mut self, waited: Waited) {
        self.kept.manager.tell(&format!("MAINPID={}", std::process::id()));
        self.workers.iter().for_each(|worker| worker.orders().give(Command::Do(Order::Resume)));
        let log = |done: io::Result<()>| {
            if let Err(error) = done {
                self.shared.log.line(format!("interception: {error}"));
            }
        };
        if waited.device.is_some() {
            log(hold::start(&self.shared, &self.config, waited).map(|hold| self.hold = Some(hold)));
        }
        if let (Some(transparent), Some(interception)) = (&self.config.transparent, &mut self.interception) {
            log(interception.update(&self.config, transparent));
            self.passes_by = false;
        }
    }

    /// Leaves all but the open connections to the new process.
    fn retire(&mut self, channel: Channel, answers: &mut Answers, words: &str) {
        let (open, within) = (self.shared.stats.open.get(), self.config.upgrade_drain);
        self.kept.manager.leave();
        self.kept.lock = None;
        answers.leave();
        if let Some(interception) = self.interception.take() {
            interception.leave();
        }
        self.listeners.clear();
        self.succession.forget_older();
        self.succession.newer = Some(channel);
        self.succession.is_replaced = true;
        self.deadline = Some(monotonic() + within);
        self.workers.iter().for_each(|worker| worker.orders().give(Command::Drain));
        let within = within.as_nanos() / 1_000_000_000;
        self.shared.log.line(format!("replaced {words} draining connections={open} seconds={within}"));
    }
}

/// Hands over to the newer process what accounting has not written.
///
/// # Errors
/// If it has not taken all of it, as a version does that knows nothing of it.
pub(in crate::service) fn bequeath(newer: &Channel, unwritten: &Unwritten) -> io::Result<()> {
    for line in &unwritten.lines {
        newer.send(format!("{UNWRITTEN} {line}").as_bytes(), None)?;
    }
    newer.send(format!("{LOST} {}", unwritten.lost).as_bytes(), None)?;
    loop {
        // It may tell this one to stop, too.
        if newer.receive()?.bytes == TAKEN {
            return Ok(());
        }
    }
}

/// How long queries wait meanwhile.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
