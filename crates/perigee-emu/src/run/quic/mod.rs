//! Flows over QUIC: the flow and the stack of the simulator, over UDP sockets of the kernel and on the wall clock.
//!
//! One thread has both ends of a flow's connections: a thread of the run, or that of a process which the kernel confines, where the
//! algorithm is an author's. What is measured is what the ends see: their datagrams have secrets on the way.
//!
//! The flow's time is that of its events, as in the simulator: the instant at which the kernel had a datagram, or for which a timer
//! was set, in their order. Where the thread comes late to them, so does what the ends send then, as if the path had kept it; but no
//! round trip and no pause begins or ends with the thread's own turn.

mod apart;
mod flow;
mod keys;
mod report;
mod sockets;
mod timers;

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use perigee_pep::Channel;
use perigee_study::{Opener, Quic, Run};
use perigee_units::Time;

use crate::os::clock::RunClock;
use crate::os::namespace::Namespace;

pub use apart::{apart, carry_apart, hurry, MOST_SOCKETS};
use flow::{carry, Home};
pub(crate) use keys::RealKeys;
use report::FlowStanding;
pub(crate) use report::QuicReport;
use sockets::{Places, Sockets};

/// The application of a flow over QUIC, before its start.
pub(crate) struct QuicApplication<'a> {
    run: &'a Run,
    number: u32,
    /// The node of the clients.
    node: &'a Namespace,
    places: Places,
    /// The sockets of the first client and of the server.
    sockets: [UdpSocket; 2],
    carried: Carrying,
    report: Arc<QuicReport>,
}

/// Where a flow is carried.
pub(crate) enum Carrying {
    /// In a thread of this process.
    Here(Arc<RealKeys>),
    /// In the process at the other end.
    Apart(Channel),
}

impl<'a> QuicApplication<'a> {
    /// Sockets of the flow of this number, between the nodes `from` and `to`.
    pub(crate) fn new(
        run: &'a Run,
        (number, quic): (u32, &Quic),
        [from, to]: [&'a Namespace; 2],
        carried: Carrying,
    ) -> io::Result<Self> {
        let (node, server) = match quic.opened_by {
            Opener::Sender => (from, to),
            Opener::Receiver => (to, from),
        };
        let places = Places::of(number, &run.scenario.flows[number as usize]);
        let sockets = [node.enter(|| places.open(0))?, server.enter(|| sockets::open(places.server, false))?];
        Ok(Self { run, number, node, places, sockets, carried, report: Arc::default() })
    }

    /// The report for the observer.
    pub(crate) fn report(&self) -> Arc<QuicReport> {
        self.report.clone()
    }

    /// Carries the flow until stopped.
    pub(crate) fn carry(self, clock: RunClock, stop: &AtomicBool) -> io::Result<()> {
        let Self { run, number, places, sockets, report, .. } = self;
        // The clients of further connections have their sockets there.
        self.node.join()?;
        let keys = match self.carried {
            Carrying::Apart(channel) => return apart::attend(&channel, (places, sockets), clock, &report, stop),
            Carrying::Here(keys) => keys,
        };
        hurry();
        let mut home = Here { places, report: &report, stop };
        let measured = carry(run, number, Sockets::new(places, sockets)?, &keys, clock, &mut home)?;
        report.keep(measured);
        Ok(())
    }
}

/// The run, from a thread of its own process that is in the clients' node.
struct Here<'a> {
    places: Places,
    report: &'a QuicReport,
    stop: &'a AtomicBool,
}

impl Home for Here<'_> {
    fn client(&mut self, connection: u32) -> io::Result<UdpSocket> {
        self.places.open(connection.into())
    }

    fn hear(&mut self, _now: Time, standing: FlowStanding) -> bool {
        self.report.hear(standing);
        !self.stop.load(Ordering::Relaxed)
    }
}
