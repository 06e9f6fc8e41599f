//! QUIC settings between the two boxes: windows for the path, and congestion control.
//!
//! Questions to a silent box pass by the congestion control ([`Questions`]), as QUIC's own probes do.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use perigee_cc::Selected;
use perigee_quic::stack::congestion::{Controller, ControllerFactory, ControllerMetrics};
use perigee_quic::stack::{Connection, IdleTimeout, PathId, RttEstimator, TransportConfig, VarInt};
use perigee_quic::Shared;

use crate::config::{Tunnel, TunnelControl};

/// Whether what is sent now is a question, which no congestion window holds back: a window that was full when the path became dark
/// stays full, since nothing is acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions(Arc<AtomicBool>);

impl Questions {
    /// Sends by `send` regardless of the windows of the connections with these settings.
    pub(crate) fn ask<T>(&self, send: impl FnOnce() -> T) -> T {
        self.0.store(true, Ordering::Relaxed);
        let sent = send();
        self.0.store(false, Ordering::Relaxed);
        sent
    }

    fn are_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The settings of QUIC; `held` is the memory for unread bytes of the other box.
pub(crate) fn transport(tunnel: &Tunnel, held: u64, questions: &Questions) -> TransportConfig {
    let product = tunnel.product();
    let stream = stream_window(tunnel, held);
    let grace = Duration::from_nanos(tunnel.outage_grace.as_nanos());
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(number(stream))
        .receive_window(number(held))
        .send_window(held)
        // QUIC allocates state for each permitted stream: a gateway permits them only to known terminals.
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .keep_alive_interval(Some((grace / 4).min(KEEP_ALIVE)));
    config.max_idle_timeout(IdleTimeout::try_from(grace).ok());
    if let Some(round_trip) = tunnel.round_trip {
        config.initial_rtt(Duration::from_nanos(round_trip.as_nanos()));
    }
    // A path of known capacity is filled from the first round trip; otherwise the window of RFC 9002.
    let initial = product.unwrap_or(10 * 1_200).max(10 * 1_200);
    let factory = Factory { control: tunnel.control, initial, questions: questions.clone() };
    config.congestion_controller_factory(Arc::new(factory));
    config
}

/// Bytes of one stream that the other box may have in flight or unread here: a window in flight, and one that waits for the repair
/// of losses.
pub(crate) fn stream_window(tunnel: &Tunnel, held: u64) -> u64 {
    let window = tunnel.product().map_or(DEFAULT_STREAM, |bytes| (2 * bytes).clamp(LEAST_STREAM, MOST_STREAM));
    window.min(held / 4)
}

/// A number in QUIC's encoding.
pub(crate) fn number(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}

/// The controller of a connection.
pub(crate) fn control_of(connection: &Connection) -> Option<Box<Control>> {
    connection.congestion_state(PathId::ZERO)?.clone_box().into_any().downcast().ok()
}

/// A turn of a connection's sending, of which its algorithm has to know.
pub(crate) struct SendingTurn(Option<Box<Control>>);

impl SendingTurn {
    pub(crate) fn begin(connection: &Connection) -> Self {
        let turn = Self(control_of(connection));
        if let Some(algorithm) = turn.algorithm() {
            algorithm.begin_turn();
        }
        turn
    }

    /// The connection has no more to send. A turn that a full socket cuts short has no end.
    pub(crate) fn end(self, now: Instant) {
        if let Some(algorithm) = self.algorithm() {
            algorithm.end_turn(now);
        }
    }

    fn algorithm(&self) -> Option<&Shared> {
        match &self.0.as_ref()?.window {
            Window::Fixed(_) => None,
            Window::Of(algorithm) => Some(algorithm),
        }
    }
}

/// Whether packets may be ECN-capable. Algorithms that count marks need to know each of them, and QUIC says only that some have come.
pub(crate) fn is_marked(control: TunnelControl) -> bool {
    match control {
        TunnelControl::Fixed => true,
        TunnelControl::Algorithm(algorithm) => !algorithm.counts_marks(),
    }
}

/// Makes the controllers of connections.
struct Factory {
    control: TunnelControl,
    /// First window, bytes.
    initial: u64,
    questions: Questions,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let window = match self.control {
            TunnelControl::Fixed => Window::Fixed(self.initial + self.initial / 10),
            TunnelControl::Algorithm(algorithm) => {
                let selected = Selected::with_defaults(algorithm);
                Window::Of(Shared::of_path(&selected, now, current_mtu, self.initial))
            }
        };
        Box::new(Control { window, questions: self.questions.clone(), acknowledged: 0 })
    }
}

/// The controller of a connection, whose window does not hold questions back.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    window: Window,
    questions: Questions,
    /// Datagrams that were acknowledged.
    acknowledged: u64,
}

#[derive(Clone, Debug)]
enum Window {
    /// Constant, bytes, independent of losses and delays: for capacity that the tunnel has to itself.
    Fixed(u64),
    Of(Shared),
}

impl Control {
    /// How many datagrams of its connection have been acknowledged: a frame that says so may repeat what it has said before.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The algorithm that decides; none where the window is constant.
    fn algorithm(&mut self) -> Option<&mut Shared> {
        match &mut self.window {
            Window::Fixed(_) => None,
            Window::Of(algorithm) => Some(algorithm),
        }
    }
}

impl Controller for Control {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        if let Some(algorithm) = self.algorithm() {
            algorithm.on_packet_sent(now, bytes, pn);
        }
    }

    fn on_cwnd_limited(&mut self) {
        if let Some(algorithm) = self.algorithm() {
            algorithm.on_cwnd_limited();
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, pn: u64, app_limited: bool, rtt: &RttEstimator) {
        self.acknowledged += 1;
        if let Some(algorithm) = self.algorithm() {
            algorithm.on_ack(now, sent, bytes, pn, app_limited, rtt);
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        if let Some(algorithm) = self.algorithm() {
            algorithm.on_end_acks(now, in_flight, app_limited, largest);
        }
    }

    fn on_packet_lost(&mut self, bytes: u16, pn: u64, now: Instant) {
        if let Some(algorithm) = self.algorithm() {
            algorithm.on_packet_lost(bytes, pn, now);
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest: u64,
    ) {
        if let Some(algorithm) = self.algorithm() {
            algorithm.on_congestion_event(now, sent, is_persistent, is_ecn, lost_bytes, largest);
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        if let Some(algorithm) = self.algorithm() {
            algorithm.on_spurious_congestion_event();
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        if let Some(algorithm) = self.algorithm() {
            algorithm.on_mtu_update(new_mtu);
        }
    }

    fn window(&self) -> u64 {
        match &self.window {
            _ if self.questions.are_asked() => u64::MAX,
            Window::Fixed(bytes) => *bytes,
            Window::Of(algorithm) => algorithm.window(),
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        match &self.window {
            Window::Of(algorithm) if !self.questions.are_asked() => algorithm.metrics(),
            // A window without a rate, for which QUIC paces by itself, or does not where it is so large.
            _ => {
                let mut metrics = ControllerMetrics::default();
                metrics.congestion_window = self.window();
                metrics
            }
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Bytes of a stream in flight for an unknown path, and the limits for a known one.
const DEFAULT_STREAM: u64 = 4 << 20;
const LEAST_STREAM: u64 = 256 << 10;
const MOST_STREAM: u64 = 64 << 20;
/// Interval of keep-alives, shorter than the lifetime of NAT mappings.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    /// The controller of a path with a first window of `initial` bytes, and its questions.
    fn controller(control: TunnelControl, initial: u64) -> (Box<dyn Controller>, Questions) {
        let questions = Questions::default();
        let factory = Factory { control, initial, questions: questions.clone() };
        (Arc::new(factory).build(crate::host::clock::instant(), 1_200), questions)
    }

    #[test]
    fn a_fixed_window_stays_whatever_is_lost() {
        let (mut fixed, questions) = controller(TunnelControl::Fixed, 1_500_000);
        let now = crate::host::clock::instant();
        fixed.on_congestion_event(now, now, true, false, 1_000_000, 9);
        fixed.on_mtu_update(1_452);
        assert_eq!(
            (fixed.window(), fixed.initial_window(), fixed.clone_box().window()),
            (1_650_000, 1_650_000, 1_650_000)
        );
        assert_eq!(questions.ask(|| (fixed.window(), fixed.metrics().congestion_window)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn an_algorithm_begins_with_the_window_of_the_path_whatever_size_datagrams_have_and_no_question_waits_for_it() {
        let hybla = perigee_cc::find("hybla").unwrap();
        let (mut control, questions) = controller(TunnelControl::Algorithm(hybla), 1_500_000);
        // A byte more than whole packets, since QUIC sends while a packet stays below the window.
        assert_eq!((control.window(), control.initial_window()), (1_500_001, 1_500_001));
        control.on_mtu_update(1_452);
        assert_eq!(control.window(), 1_500_000 / 1_200 * 1_200 / 1_452 * 1_452 + 1);
        assert_eq!(questions.ask(|| (control.window(), control.metrics().pacing_rate)), (u64::MAX, None));
        assert!(control.metrics().pacing_rate.is_some());
    }
}
