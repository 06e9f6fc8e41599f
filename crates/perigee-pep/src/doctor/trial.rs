//! The proxied way: a worker with one rule behind a listening socket on the loopback device.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{bind, connect, getsockname};

use perigee_units::Time;

use super::fetch::{connected, pause};
use crate::config::{Allow, Config, Forward, Leg, Rule};
use crate::error::ServiceError;
use crate::event_loop::Thread;
use crate::host::clock::monotonic;
use crate::legs::socket::{dial, listening, reset_on_close, stream_socket};
use crate::service::listener::Listener;
use crate::service::worker::{Order, Worker};
use crate::shared::handover::Dialled;
use crate::shared::log::Log;
use crate::shared::permit::Reservation;
use crate::shared::stats::Stats;
use crate::shared::Shared;

/// A forward to one server by one rule, until it is dropped.
pub(crate) struct Trial {
    #[expect(dead_code, reason = "its thread ends when it is dropped")]
    worker: Thread<Order>,
    shared: Arc<Shared>,
    lines: Receiver<String>,
    listen: SocketAddr,
    target: SocketAddr,
    rule: Arc<Rule>,
    own_mark: Option<u32>,
}

impl Trial {
    /// Starts the worker. It accepts clients of this host only, dials the target only, and applies `[allow]`.
    pub(crate) fn start(config: &Config, rule: &Rule, target: SocketAddr) -> Result<Self, ServiceError> {
        let at: IpAddr = if target.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let opened = listening(SocketAddr::new(at, 0), false, true).and_then(|socket| {
            let listen = SocketAddr::try_from(getsockname(&socket)?)?;
            Ok((socket, listen))
        });
        let (socket, listen) = opened.map_err(ServiceError::system("listening on the loopback device"))?;
        let rule = Arc::new(Rule {
            sources: Vec::new(),
            destinations: Vec::new(),
            ports: Vec::new(),
            interfaces: Vec::new(),
            dscp: Vec::new(),
            ..rule.clone()
        });
        let config = Arc::new(Config {
            workers: 1,
            allow: Allow { sources: vec![at.into()], ..config.allow.clone() },
            forwards: vec![Forward { listen, target }],
            tunnel: None,
            rules: vec![rule.clone()],
            ..config.clone()
        });
        let stats = Arc::new(Stats::default());
        let (log, lines) = Log::new(stats.clone());
        let shared = Arc::new(Shared::new(stats, log, config.limits.connections).watched());
        // A worker uses an already answered server only for intercepted clients.
        let listener = Listener { socket: Arc::new(socket), address: listen, is_transparent: rule.connects_first };
        let worker = Worker::start(&shared, &config, vec![listener])?;
        let own_mark = config.own_mark();
        Ok(Self { worker, shared, lines, listen, target, rule, own_mark })
    }

    /// Dials the server directly, with the settings of this host.
    pub(crate) fn dial(&self) -> io::Result<OwnedFd> {
        dial(&Leg::default(), None, self.target, self.own_mark, 0, &self.shared.log)
    }

    /// Opens a client's connection; with `connect_first`, once the server has answered, at the latest at `deadline`.
    pub(crate) fn connect(&self, deadline: Time) -> io::Result<OwnedFd> {
        let socket = stream_socket(self.listen)?;
        reset_on_close(&socket);
        bind(&socket, &SocketAddr::new(self.listen.ip(), 0))?;
        let source = SocketAddr::try_from(getsockname(&socket)?)?;
        if self.rule.connects_first {
            let began = monotonic();
            let server = dial(&self.rule.server, None, self.target, self.own_mark, 0, &self.shared.log)?;
            connected(&server, deadline)?;
            let place =
                self.shared.clients.permit(source.ip(), usize::MAX).map(Reservation::new).ok_or(Errno::USERS)?;
            let dialled = Dialled { server, rule: self.rule.clone(), place, dscp: 0, times: [began, monotonic()] };
            self.shared.keep_dialled([source, self.listen], dialled);
        }
        match connect(&socket, &self.listen) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls `look` on the socket to the server of a client; `None` if the server was not dialled, or the connection has ended.
    pub(crate) fn with_server<T>(&self, client: &OwnedFd, look: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        let source = SocketAddr::try_from(getsockname(client).ok()?).ok()?;
        let all = self.shared.carried();
        all.iter().find(|one| one.source == source)?.with(|[_, server]| look(server.as_fd()))
    }

    /// Waits for the end of the last connection.
    pub(crate) fn settle(&self) {
        for _ in 0..LOOKS {
            if self.shared.carried().is_empty() {
                return;
            }
            pause(LOOK);
        }
    }

    /// Why the worker has ended a connection, in the log's words.
    pub(crate) fn reason(&self) -> Option<String> {
        let mut lines = std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok());
        lines.find_map(|line| Some(line.split_once(" reason=\"")?.1.split_once('"')?.0.to_owned()))
    }

    /// Settings that the kernel refused.
    pub(crate) fn notes(&self) -> Vec<String> {
        let is_of_one = |line: &String| ["connection ", "refused "].iter().any(|begin| line.starts_with(begin));
        self.lines.try_iter().filter(|line| !is_of_one(line)).collect()
    }
}

/// Number of checks whether a connection has ended, and the time between them.
const LOOKS: u32 = 100;
const LOOK: Time = Time::from_millis(10);
/// Maximum wait for the log line of an ended connection.
const PATIENCE: Duration = Duration::from_secs(1);
