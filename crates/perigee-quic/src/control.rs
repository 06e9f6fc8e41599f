//! A congestion control of `algorithms/` as the stack's: forwards the stack's events, and answers with window and rate.

mod ledger;
#[cfg(test)]
mod same_decisions;
mod sender;

pub use sender::Counters;

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use noq_proto::RttEstimator;
use perigee_cc::{Selected, Socket};

use crate::clock;
pub(crate) use sender::Sender;

/// Why this algorithm cannot control a QUIC flow, in one line; `ecn`: the flow's packets are ECN-capable.
///
/// The stack says that marks have arrived, and not how many (RFC 9002, section 7.1, needs no more).
pub fn refusal(selected: &Selected, ecn: bool) -> Option<String> {
    let algorithm = selected.algorithm();
    (algorithm.needs_ecn() || (ecn && algorithm.counts_marks())).then(|| {
        let way = if algorithm.needs_ecn() { "run it over TCP" } else { "switch ECN off" };
        format!("`{}` counts CE marks, which the QUIC stack does not report; {way}", algorithm.name())
    })
}

/// The controller of one path. Clones are the same one, so that the driver of a connection has it too: an [`crate::Endpoint`], or a driver
/// of its own, which begins and ends the turns.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<Sender>>);

impl Shared {
    /// A controller that paces whatever the algorithm says, with a first window of `window_bytes`, on a path whose datagrams have
    /// `datagram_bytes` at first. `now`: the beginning of the path.
    ///
    /// # Panics
    /// Where the algorithm is only described.
    pub fn of_path(selected: &Selected, now: Instant, datagram_bytes: u16, window_bytes: u64) -> Self {
        let packets = u32::try_from(window_bytes / u64::from(datagram_bytes)).unwrap_or(u32::MAX);
        // Paths do not repeat themselves, so that any seed will do. Taking the time sets the origin of all times before this path's.
        let seed = clock::time(now).as_nanos();
        Self::new(Sender::new(Socket::new(selected, datagram_bytes.into(), packets, seed), true))
    }

    pub(crate) fn new(sender: Sender) -> Self {
        Self(Arc::new(Mutex::new(sender)))
    }

    /// A turn begins: the driver asks the connection for datagrams until it has no more.
    pub fn begin_turn(&self) {
        self.lock().begin_poll();
    }

    /// The connection has had no more datagrams. Where neither window nor pacer was the reason, its applications are, or the credit of the
    /// peer: as RFC 9002 (section 7.8), it takes both for one.
    pub fn end_turn(&self, now: Instant) {
        let mut sender = self.lock();
        let is_dry = !sender.is_held_by_pacer();
        if !sender.end_turn(clock::time(now), is_dry) {
            sender.on_write();
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Sender> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Shared {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.lock().on_sent(clock::time(now), pn, bytes);
    }

    fn on_cwnd_limited(&mut self) {
        self.lock().on_window_full();
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, _: u64, pn: u64, _: bool, _: &RttEstimator) {
        self.lock().on_acked(clock::time(now), clock::time(sent), pn);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        self.lock().on_end_of_ack(clock::time(now), Some(in_flight));
    }

    fn on_packet_lost(&mut self, _: u16, pn: u64, now: Instant) {
        self.lock().on_lost(clock::time(now), pn);
    }

    fn on_congestion_event(&mut self, now: Instant, _: Instant, is_persistent: bool, is_ecn: bool, _: u64, _: u64) {
        let (mut sender, now) = (self.lock(), clock::time(now));
        match (is_ecn, is_persistent) {
            (true, _) => sender.on_mark(now),
            (false, true) => sender.on_persistent_congestion(now),
            (false, false) => sender.on_loss_event(now),
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        self.lock().on_spurious_loss();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.lock().set_datagram_size(new_mtu);
    }

    fn window(&self) -> u64 {
        self.lock().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut sender = self.lock();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = sender.window();
        metrics.ssthresh = sender.ssthresh();
        metrics.pacing_rate = Some(sender.asked_rate());
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.lock().window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Gives a connection the controller that its endpoint has made.
pub(crate) struct Made(pub(crate) Shared);

impl ControllerFactory for Made {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(self.0.clone())
    }
}
