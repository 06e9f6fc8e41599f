//! QUIC settings between the two boxes: windows for the path, and congestion control.
//!
//! Questions to a silent box pass by the congestion control ([`Questions`]), as QUIC's own probes do.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{Connection, IdleTimeout, RttEstimator, TransportConfig, VarInt};

use crate::config::{Tunnel, TunnelCongestion};

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
    let controls: Arc<dyn ControllerFactory + Send + Sync> = match tunnel.congestion {
        TunnelCongestion::Fixed => Arc::new(Fixed { window: initial + initial / 10 }),
        TunnelCongestion::Cubic => Arc::new(CubicConfig::default().initial_window(initial).clone()),
        TunnelCongestion::NewReno => Arc::new(NewRenoConfig::default().initial_window(initial).clone()),
        TunnelCongestion::Bbr => Arc::new(BbrConfig::default().initial_window(initial).clone()),
    };
    config.congestion_controller_factory(Arc::new(Asking::new(controls, questions)));
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

/// A constant window, bytes, independent of losses and delays: for capacity that the tunnel has to itself.
#[derive(Clone, Debug)]
struct Fixed {
    window: u64,
}

impl ControllerFactory for Fixed {
    fn build(self: Arc<Self>, _now: Instant, _current_mtu: u16) -> Box<dyn Controller> {
        self.clone_box()
    }
}

impl Controller for Fixed {
    fn on_congestion_event(&mut self, _now: Instant, _sent: Instant, _is_persistent: bool, _lost_bytes: u64) {}

    fn on_mtu_update(&mut self, _new_mtu: u16) {}

    fn window(&self) -> u64 {
        self.window
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// How many datagrams of a connection have been acknowledged: a frame that says so may repeat what it has said before.
pub(crate) fn acknowledged(connection: &Connection) -> u64 {
    let control = connection.congestion_state().clone_box().into_any();
    control.downcast::<Asking<Box<dyn Controller>>>().map_or(0, |control| control.acknowledged)
}

/// Makes congestion controls, or is one, whose window does not hold questions back.
struct Asking<T> {
    controls: T,
    questions: Questions,
    /// Datagrams that were acknowledged.
    acknowledged: u64,
}

impl<T> Asking<T> {
    fn new(controls: T, questions: &Questions) -> Self {
        Self { controls, questions: questions.clone(), acknowledged: 0 }
    }
}

impl ControllerFactory for Asking<Arc<dyn ControllerFactory + Send + Sync>> {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let controls = self.controls.clone().build(now, current_mtu);
        Box::new(Asking::new(controls, &self.questions))
    }
}

impl Controller for Asking<Box<dyn Controller>> {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.controls.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.acknowledged += 1;
        self.controls.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_acked: Option<u64>) {
        self.controls.on_end_acks(now, in_flight, app_limited, largest_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.controls.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.controls.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        // So large that QUIC does not pace either.
        if self.questions.are_asked() {
            u64::MAX
        } else {
            self.controls.window()
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let acknowledged = self.acknowledged;
        Box::new(Asking { acknowledged, ..Asking::new(self.controls.clone_box(), &self.questions) })
    }

    fn initial_window(&self) -> u64 {
        self.controls.initial_window()
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

    #[test]
    fn a_fixed_window_stays_whatever_is_lost() {
        let now = crate::host::clock::instant();
        let mut fixed = Arc::new(Fixed { window: 1_650_000 }).build(now, 1_200);
        fixed.on_congestion_event(now, now, true, 1_000_000);
        fixed.on_mtu_update(1_452);
        assert_eq!(
            (fixed.window(), fixed.initial_window(), fixed.clone_box().window()),
            (1_650_000, 1_650_000, 1_650_000)
        );
    }
}
