//! QUIC settings between the two boxes: windows for the path, and congestion control.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{IdleTimeout, TransportConfig, VarInt};

use crate::config::{Tunnel, TunnelCongestion};

/// The settings of QUIC; `held` is the memory for unread bytes of the other box.
pub(crate) fn transport(tunnel: &Tunnel, held: u64) -> TransportConfig {
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
    let congestion: Arc<dyn ControllerFactory + Send + Sync> = match tunnel.congestion {
        TunnelCongestion::Fixed => Arc::new(Fixed { window: initial + initial / 10 }),
        TunnelCongestion::Cubic => Arc::new(CubicConfig::default().initial_window(initial).clone()),
        TunnelCongestion::NewReno => Arc::new(NewRenoConfig::default().initial_window(initial).clone()),
        TunnelCongestion::Bbr => Arc::new(BbrConfig::default().initial_window(initial).clone()),
    };
    config.congestion_controller_factory(congestion);
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
