//! The service: starts workers, handles signals, and answers queries for its state.

pub(crate) mod accounting;
pub(crate) mod answers;
pub(crate) mod checks;
mod embedded;
mod hold;
pub(crate) mod listener;
mod locks;
mod own;
pub(crate) mod succession;
pub(crate) mod worker;

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};

use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use self::accounting::AccountWriter;
use self::answers::{control_socket, Answers, Control};
use self::checks::{check_descriptors, connections, waiting};
use self::hold::{Hold, Waited};
use self::listener::{addresses, Listener};
use self::locks::lock_interception;
use self::succession::new::Inherited;
use self::succession::{bequeath, Succession};
use self::worker::{Configuration, Order, Worker};
use crate::config::{AtLimit, Config};
use crate::error::ServiceError;
use crate::event_loop::{Command, Thread};
use crate::host::at_end::{rest_if_ending, AtEnd};
use crate::host::clock::monotonic;
use crate::host::confinement::{confine, Confinement};
use crate::host::intercept::{Interception, Missing};
use crate::host::notify::Manager;
use crate::host::one_way::Paths;
use crate::host::survey::survey;
use crate::host::sys::{next_signal, return_memory, signal_descriptor};
use crate::link::{self, Division, Report};
use crate::shared::handover::TunnelOrder;
use crate::shared::log::{is_torn, write, Log};
use crate::shared::records::Records;
use crate::shared::stats::Stats;
use crate::shared::Shared;
use crate::tunnel::{self, Known, Link};

pub use self::checks::read;
pub use self::embedded::Embedded;

/// Runs the service until a signal ends it.
///
/// SIGTERM and SIGINT drain it: open connections continue until the deadline or a second signal. SIGHUP reloads the
/// configuration.
///
/// # Errors
/// If it cannot start, or a worker fails.
pub fn run(path: &Path) -> Result<(), ServiceError> {
    serve(path, read(path)?, &mut Inherited::default())
}

/// Runs the service in place of a process that has run it until now, and goes on with its connections.
///
/// # Errors
/// If it cannot start: then the older process goes on.
pub(crate) fn take_over(path: &Path) -> Result<(), ServiceError> {
    let config = read(path)?;
    let mut inherited = Inherited::default();
    let ended = inherited.ask(&config).and_then(|()| serve(path, config, &mut inherited));
    ended.inspect_err(|error| inherited.refuse(error))
}

fn serve(path: &Path, config: Config, inherited: &mut Inherited) -> Result<(), ServiceError> {
    let config = Arc::new(config);
    link::check(&config)?;
    check_descriptors(&config)?;
    // Before any thread starts, since threads inherit the blocked signals.
    let signals =
        signal_descriptor(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP]).map_err(ServiceError::system("signals"))?;
    let connections = connections(&config);
    let stats = Arc::new(Stats::default());
    let (log, lines) = Log::new(stats.clone());
    let lock = inherited.lock().map_or_else(|| lock_interception(&config, &log), |lock| Ok(Some(lock.into())))?;
    let open = |path: &PathBuf| match inherited.control() {
        Some([listener, successors]) => Ok(Control::inherited(listener, successors, path)),
        None => control_socket(path),
    };
    let mut control = config.control.as_ref().map(open).transpose()?;
    // Reads the keys of this box, before confinement.
    let link = config.tunnel.as_ref().map(|tunnel| Link::open(&config, tunnel)).transpose()?;
    let accounts = config.accounting.as_ref().map(accounting::open).transpose()?;
    let findings = survey(&config);
    // Confined, it may not read what it writes to, nor makes and connects such a socket as the manager's.
    let is_torn = is_torn();
    let manager = Manager::new();
    // Before any thread starts, as with signals.
    let confinement = confine(&config, path);
    let writer = write(lines, stats.clone(), is_torn).map_err(ServiceError::system("log"))?;
    log.line(confinement.report.clone());
    for finding in findings {
        log.line(format!("host {finding}"));
    }
    if connections < config.limits.connections {
        log.line(format!("limit connections={connections} reason=\"the limit of descriptors (RLIMIT_NOFILE)\""));
    }
    // The process that has replaced this one, at the end.
    let newer = Arc::new(OnceLock::new());
    let (records, last_accounts) = match config.accounting.clone().zip(accounts) {
        Some((accounting, file)) => {
            // A process that this one replaces may still write.
            let killed = if inherited.standing().is_none() { accounting::of_killed(file.as_ref()) } else { None };
            if let Some(said) = killed {
                log.line(said);
            }
            let (records, messages) = Records::new(&accounting);
            let writer = AccountWriter::start(accounting, file, (&records, messages), stats.clone(), log.clone())?;
            let newer = newer.clone();
            let hand_over = move |unwritten: &_| newer.get().is_some_and(|newer| bequeath(newer, unwritten).is_ok());
            (Some(records), Some(AtEnd::new(move || writer.finish(hand_over))))
        }
        None => (None, None),
    };
    stats.usage.round(config.metrics_subscribers, records.is_some());
    let shared = Arc::new(Shared::new(stats, log, connections).with_records(records));
    let mut serve = |address| {
        let inherited = inherited.metrics().map(TcpListener::from);
        let own = inherited.filter(|socket| socket.local_addr().is_ok_and(|own| own == address));
        let socket = own.map_or_else(|| TcpListener::bind(address), Ok)?;
        socket.set_nonblocking(true).map(|()| socket)
    };
    let mut serve = |address| serve(address).map_err(ServiceError::system(&format!("service.metrics {address}")));
    let metrics = config.metrics.map(&mut serve).transpose()?;
    let kept = Kept { lock, confinement, manager };
    let mut service = Service::start(path, config, shared, link, kept, inherited)?;
    control.iter_mut().for_each(Control::own);
    service.kept.manager.tell("READY=1");
    if let Some(before) = inherited.standing() {
        succession::new::tell_ready(before);
    }
    service.shared.log.line(format!("ready workers={}", service.workers.len()));
    let ended = service.obey(&signals, Answers::new(control, metrics));
    let log = service.shared.log.clone();
    let _ = service.succession.take_newer().map(|channel| newer.set(channel));
    drop(service);
    // All users of the lines of accounting have ended, and then of the log.
    drop(last_accounts);
    // Names and rules are free now: a start after this line finds none of them.
    log.line("stopped".to_owned());
    drop(log);
    writer.finish();
    ended
}

/// A running service.
struct Service {
    path: PathBuf,
    /// The configuration of the start: reloads change less than all of it.
    started: Arc<Config>,
    config: Arc<Config>,
    shared: Arc<Shared>,
    /// Those that the workers have, for the next process.
    listeners: Vec<Listener>,
    workers: Vec<Thread<Order>>,
    tunnel: Option<Thread<TunnelOrder>>,
    /// Divides the satellite link. It ends after the workers, whose connections it limits until then.
    division: Option<Division>,
    report: Arc<Report>,
    /// Holds handshakes of clients until their server answers, if a rule asks for it.
    hold: Option<Hold>,
    interception: Option<Interception>,
    /// Those whose answers do not pass this host.
    one_ways: (Paths, usize),
    kept: Kept,
    succession: Succession,
    began: Time,
    /// When it ends, regardless of open connections.
    deadline: Option<Time>,
    /// Whether new connections bypass the service because of the limit.
    passes_by: bool,
    /// When rules are put back again at the earliest.
    put_back_next: Time,
    /// How long after that, and the last line about it.
    put_back_pause: Time,
    put_back_said: String,
    /// When those who have metrics of their own are chosen next.
    round: Time,
    /// The most memory for bytes, and connections with handshakes of the tunnel, since free memory was given back.
    peak: (u64, u64),
}

/// Resources made before the confinement, and held as long as the service runs.
struct Kept {
    lock: Option<UnixListener>,
    #[expect(dead_code, reason = "the rules of the kernel depend on it")]
    confinement: Confinement,
    manager: Manager,
}

impl Service {
    /// Starts the interception, and then the threads: what fails, fails before a client is accepted.
    fn start(
        path: &Path,
        config: Arc<Config>,
        shared: Arc<Shared>,
        link: Option<Link>,
        kept: Kept,
        inherited: &mut Inherited,
    ) -> Result<Self, ServiceError> {
        let started = config.clone();
        let tunnel = link.map(|link| tunnel::start(&shared, &config, link)).transpose()?;
        if let Some(tunnel) = &tunnel {
            shared.connect_tunnel(tunnel.orders().clone());
        }
        let report = Arc::new(Report::default());
        let division = Division::start(&shared, &config, &report).map_err(ServiceError::system("link"))?;
        let of_workers = Listener::open_all(&addresses(&config), config.workers, inherited.listeners())?;
        let listeners = of_workers.iter().flatten().cloned().collect();
        let waited = inherited.begin()?;
        let (config, hold) = hold::start_if_needed(&shared, config, waited)?;
        let intercept = |transparent| match inherited.standing() {
            Some(old) => Interception::take_over(&config, transparent, old.with_zone, &old.routes, &shared.log),
            None => Interception::new(&config, transparent, &shared.log),
        };
        let interception = config.transparent.as_ref().map(intercept).transpose();
        let mut interception = interception.map_err(ServiceError::system("interception"))?;
        let workers = of_workers.into_iter().map(|own| Worker::start(&shared, &config, own));
        let workers = workers.collect::<Result<_, _>>()?;
        let succession = Succession::after(inherited.conclude()?);
        interception.iter_mut().for_each(Interception::own);
        Ok(Self {
            path: path.to_owned(),
            started,
            config,
            shared,
            listeners,
            workers,
            tunnel,
            division,
            report,
            hold,
            interception,
            one_ways: <(Paths, usize)>::default(),
            kept,
            succession,
            began: monotonic(),
            deadline: None,
            passes_by: false,
            put_back_next: Time::ZERO,
            put_back_pause: Time::ZERO,
            put_back_said: String::new(),
            round: monotonic() + ROUND,
            peak: (0, 0),
        })
    }

    /// Handles signals and queries until all workers have ended.
    fn obey(&mut self, signals: &OwnedFd, mut answers: Answers) -> Result<(), ServiceError> {
        loop {
            // A panic of another thread ends the process.
            rest_if_ending();
            let mut polled = vec![PollFd::new(signals, PollFlags::IN)];
            polled.extend(answers.polled());
            let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
            match poll(&mut polled, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(ServiceError::system("poll")(error.into())),
            }
            while let Some(signal) = next_signal(signals) {
                self.on_signal(signal);
            }
            self.inform(&mut answers);
            if let Some(channel) = answers.successor() {
                self.answer(channel, &mut answers);
            }
            if self.succession.is_told_to_stop() {
                self.on_signal(libc::SIGTERM);
            }
            if self.deadline.is_some_and(|deadline| monotonic() >= deadline) {
                self.deadline = Some(Time::MAX);
                self.succession.forget_older();
                self.shared.log.line(format!("time is up connections={}", self.shared.stats.open.get()));
                self.workers.iter().for_each(|worker| worker.orders().give(Command::Abort));
                self.tunnel.iter().for_each(|tunnel| tunnel.orders().give(Command::Abort));
            }
            self.put_back();
            self.follow_tracking();
            self.pass_by();
            self.pass_one_ways();
            self.look_at_memory();
            self.look_at_subscribers();
            let mut is_running = false;
            for worker in &mut self.workers {
                match worker.result() {
                    Some(Err(error)) => return Err(ServiceError::system("event loop")(error)),
                    Some(Ok(())) => {}
                    None => is_running |= worker.is_running(),
                }
            }
            if let Some(tunnel) = &mut self.tunnel {
                if let Some(Err(error)) = tunnel.result() {
                    return Err(ServiceError::system("tunnel")(error));
                }
                // After the workers, which may still hand clients over.
                if !is_running && self.deadline.is_some() {
                    tunnel.orders().give(Command::Drain);
                }
                is_running |= tunnel.is_running();
            }
            // They need the rules.
            self.inherit();
            is_running |= self.succession.has_older() && self.deadline.is_some();
            if !is_running {
                return Ok(());
            }
            self.kept.manager.tell("WATCHDOG=1");
        }
    }

    /// Answers queries for its state, without waiting.
    fn inform(&self, answers: &mut Answers) {
        let now = monotonic();
        let state = if self.deadline.is_some() { "draining" } else { "running" };
        let stats = &self.shared.stats;
        answers.serve(
            now,
            || stats.status(now - self.began, state) + &self.report.status(),
            || stats.prometheus(now - self.began) + &self.report.prometheus(),
        );
    }

    /// Gives free memory back after a peak.
    fn look_at_memory(&mut self) {
        let stats = &self.shared.stats;
        let held = stats.held.get() + stats.tunnel_unacknowledged.get();
        let open = stats.open.get() + stats.tunnel_handshakes.get();
        let peak = (self.peak.0.max(held), self.peak.1.max(open));
        let is_over = |(peak, now, least): (u64, u64, u64)| peak >= least && now < peak / 4;
        self.peak = peak;
        if [(peak.0, held, PEAK_BYTES), (peak.1, open, PEAK_CONNECTIONS)].into_iter().any(is_over) {
            return_memory();
            self.peak = (held, open);
        }
    }

    /// Chooses from time to time who has metrics of their own.
    fn look_at_subscribers(&mut self) {
        let now = monotonic();
        if now >= self.round {
            self.round = now + ROUND;
            self.shared.stats.usage.round(self.config.metrics_subscribers, self.shared.records.is_some());
        }
    }

    /// Keeps the two legs of connections apart as soon as the host tracks connections.
    fn follow_tracking(&mut self) {
        if let (Some(transparent), Some(interception)) = (&self.config.transparent, &mut self.interception) {
            interception.follow(&self.config, transparent, &self.shared.log);
        }
    }

    /// Puts back what another program has removed of the interception, as one that loads the firewall anew.
    fn put_back(&mut self) {
        let (Some(transparent), Some(interception)) = (&self.config.transparent, &mut self.interception) else {
            return;
        };
        let now = monotonic();
        if self.deadline.is_some() || now < self.put_back_next {
            return;
        }
        let missing = interception.missing(&self.config);
        if missing == Missing::default() {
            return;
        }
        if now > self.put_back_next + PUT_BACK_MOST {
            self.put_back_pause = Time::ZERO;
            self.put_back_said.clear();
        }
        // Another program may remove them each time.
        self.put_back_pause = (self.put_back_pause + self.put_back_pause).clamp(PUT_BACK, PUT_BACK_MOST);
        self.put_back_next = now + self.put_back_pause;
        // With new connections, until the limit is looked at again.
        self.passes_by = false;
        let said = match interception.update(&self.config, transparent) {
            Ok(()) => {
                self.shared.stats.put_back.iter().zip(missing).for_each(|(counter, count)| counter.add(count));
                "interception put back reason=\"another program has removed rules of it\"".to_owned()
            }
            Err(error) => format!("interception: {error}"),
        };
        if self.put_back_said != said {
            self.put_back_said.clone_from(&said);
            self.shared.log.line(said);
        }
    }

    /// Lets new connections bypass the service while the limit is reached, if the configuration says so.
    fn pass_by(&mut self) {
        let Some(transparent) = &self.config.transparent else { return };
        if self.config.limits.at_limit != AtLimit::Pass || self.deadline.is_some() {
            return;
        }
        let (open, most) = (self.shared.stats.open.get(), self.shared.connections() as u64);
        // Below the limit by a tenth, so that it does not change with each connection.
        let is_full = if self.passes_by { open > most - most.div_ceil(10) } else { open >= most };
        if is_full == self.passes_by {
            return;
        }
        let Some(interception) = &mut self.interception else { return };
        let put = if is_full { Interception::drain } else { Interception::update };
        let said = match put(interception, &self.config, transparent) {
            Ok(()) if is_full => format!("passing connections={open} reason=\"the limit of connections is reached\""),
            Ok(()) => format!("intercepting connections={open}"),
            Err(error) => format!("interception: {error}"),
        };
        self.shared.log.line(said);
        self.passes_by = is_full;
    }

    /// Lets connections of clients pass by whose servers' answers do not pass this host.
    fn pass_one_ways(&mut self) {
        let intercepting = self.interception.as_ref().zip(self.config.transparent.as_ref());
        if !intercepting.is_some_and(|(interception, transparent)| interception.finds_paths(transparent)) {
            return;
        }
        let (paths, counted) = &mut self.one_ways;
        match paths.follow(|| self.shared.silence.take(), monotonic()) {
            Ok(found) => found.into_iter().for_each(|path| self.shared.log.line(format!("one way {path} passed by"))),
            Err(error) => self.shared.log.once(format!("one way paths are not found: {error}")),
        }
        self.shared.stats.one_ways.change(counted, paths.len());
    }

    fn on_signal(&mut self, signal: i32) {
        if signal == libc::SIGHUP && self.deadline.is_some() {
            // Its new rules would give clients to a service that is about to end.
            self.shared.log.line("the old configuration stays: the service is being stopped".to_owned());
            return;
        }
        if signal == libc::SIGHUP {
            // The log has the error.
            let _ = self.reload_and_tell();
            return;
        }
        self.succession.stop_older();
        let within = monotonic() + self.config.drain;
        if let Some(deadline) = self.deadline {
            // A second signal ends it at once.
            self.deadline = Some(if self.succession.begins_to_stop() { deadline.min(within) } else { Time::ZERO });
            return;
        }
        self.kept.manager.tell("STOPPING=1");
        // The next SYNs of held clients bypass the service.
        drop(self.hold.take().map(|hold| hold.stop(&self.shared)));
        self.listeners.clear();
        self.deadline = Some(within);
        if let (Some(transparent), Some(interception)) = (&self.config.transparent, &mut self.interception)
            && let Err(error) = interception.drain(&self.config, transparent)
        {
            self.shared.log.line(format!("interception: {error}"));
        }
        self.shared.log.line(format!("draining connections={}", self.shared.stats.open.get()));
        self.workers.iter().for_each(|worker| worker.orders().give(Command::Drain));
    }

    fn reload_and_tell(&mut self) -> Result<String, ServiceError> {
        self.kept.manager.tell("RELOADING=1");
        let done = self.reload();
        self.shared.log.line(match &done {
            Ok(said) => said.clone(),
            Err(error) => format!("the old configuration stays: {error}"),
        });
        // The host may have changed too.
        for finding in survey(&self.config) {
            self.shared.log.line(format!("host {finding}"));
        }
        self.kept.manager.tell("READY=1");
        done
    }

    /// Reloads the configuration, and returns what to say; if any of it is refused, the old one stays.
    fn reload(&mut self) -> Result<String, ServiceError> {
        let mut read = read(&self.path)?;
        let waiting = waiting(&self.started, &read).map(|waiting| format!("; {waiting}"));
        // Threads, confinement and the sockets of the service itself stay those of the start.
        read.workers = self.workers.len();
        if read.transparent.as_ref().map(|one| (one.port, one.mark, one.table))
            != self.config.transparent.as_ref().map(|one| (one.port, one.mark, one.table))
        {
            let error = io::Error::other("`[transparent]`, its port, mark and table change with a restart only");
            return Err(ServiceError::system("reload")(error));
        }
        if read.tunnel != self.config.tunnel {
            let error = io::Error::other("`[tunnel]` changes with a restart only");
            return Err(ServiceError::system("reload")(error));
        }
        link::check(&read)?;
        if read.accounting.is_some() != self.config.accounting.is_some() {
            let error = io::Error::other("`[accounting]` comes and goes with an upgrade or a restart only");
            return Err(ServiceError::system("reload")(error));
        }
        let before = self.config.accounting.as_ref();
        let reopen = |new| accounting::reopen(new, before, &self.shared.log);
        let accounts = read.accounting.as_ref().map(reopen).transpose()?;
        let known = read.tunnel.as_ref().map(Known::read).transpose()?;
        let mut config = Arc::new(read);
        let old = addresses(&self.config);
        let new: Vec<_> = addresses(&config).into_iter().filter(|address| !old.contains(address)).collect();
        let added = Listener::open_all(&new, self.workers.len(), Vec::new())?;
        let mut started = None;
        if self.hold.is_none() {
            (config, started) = hold::start_if_needed(&self.shared, config, Waited::default())?;
        }
        if let (Some(transparent), Some(interception)) = (&config.transparent, &mut self.interception) {
            interception.update(&config, transparent).map_err(ServiceError::system("interception"))?;
            self.passes_by = false;
        }
        self.hold = started.or(self.hold.take());
        self.shared.allow(connections(&config));
        if let Some((tunnel, known)) = self.tunnel.as_ref().zip(known) {
            tunnel.orders().give(Command::Do(TunnelOrder::Configure(config.clone(), known)));
        }
        match &self.division {
            Some(division) => division.configure(config.clone()),
            None => {
                self.division =
                    Division::start(&self.shared, &config, &self.report).map_err(ServiceError::system("link"))?;
            }
        }
        if let Some((records, (accounting, destination))) =
            self.shared.records.as_ref().zip(config.accounting.clone().zip(accounts))
            && !records.configure(accounting, destination)
        {
            self.shared.log.line("accounting: the old file stays, since its disk is too slow".to_owned());
        }
        let (done, answers) = channel();
        self.listeners.retain(|listener| listener.is_of(&config));
        self.listeners.extend(added.iter().flatten().cloned());
        let order = |added| Configuration { config: config.clone(), added, done: done.clone() };
        for (worker, added) in self.workers.iter().zip(added) {
            worker.orders().give(Command::Do(Order::Configure(order(added))));
        }
        self.hold.iter().for_each(|hold| hold.orders().give(Command::Do(order(Vec::new()))));
        drop(done);
        // One answer of each thread; none if it has failed, which the next check of the threads reports.
        answers.into_iter().for_each(drop);
        self.config = config;
        Ok(format!("reloaded{}", waiting.unwrap_or_default()))
    }
}

/// Interval at which threads and deadline are checked.
const LOOK_NS: i64 = 100_000_000;
/// Time between two attempts to put rules back: the first, which doubles, and the longest, after which it is the first again.
const PUT_BACK: Time = Time::from_secs(1);
const PUT_BACK_MOST: Time = Time::from_secs(60);
/// Time between choices of who has metrics of their own.
const ROUND: Time = Time::from_secs(10);
/// Peaks after which free memory is given back: of bytes between sockets and for the other box, and of connections.
const PEAK_BYTES: u64 = 16 << 20;
const PEAK_CONNECTIONS: u64 = 16;
