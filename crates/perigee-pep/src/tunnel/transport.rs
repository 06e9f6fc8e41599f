//! How QUIC behaves between the two boxes: windows by the path, and congestion control.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{IdleTimeout, TransportConfig, VarInt};

use crate::config::{Tunnel, TunnelCongestion};

/// The settings of QUIC; `held` is the memory for bytes that the other box has sent and nobody has read.
pub(crate) fn transport(tunnel: &Tunnel, held: u64) -> TransportConfig {
    let product = tunnel.product();
    let stream = stream_window(tunnel, held);
    let grace = Duration::from_nanos(tunnel.outage_grace.as_nanos());
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(number(stream))
        .receive_window(number(held))
        .send_window(held)
        // QUIC keeps a place for each stream from the start: a gateway allows them to terminals that it knows.
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .keep_alive_interval(Some((grace / 4).min(KEEP_ALIVE)));
    config.max_idle_timeout(IdleTimeout::try_from(grace).ok());
    if let Some(round_trip) = tunnel.round_trip {
        config.initial_rtt(Duration::from_nanos(round_trip.as_nanos()));
    }
    // A path whose capacity is known is filled from the first round trip; otherwise as RFC 9002 says.
    let initial = product.unwrap_or(10 * 1_200).max(10 * 1_200);
    let congestion: Arc<dyn ControllerFactory + Send + Sync> = match tunnel.congestion {
        TunnelCongestion::Fixed => Arc::new(FixedConfig { window: initial + initial / 10 }),
        TunnelCongestion::Cubic => {
            let mut cubic = CubicConfig::default();
            cubic.initial_window(initial);
            Arc::new(cubic)
        }
        TunnelCongestion::NewReno => {
            let mut reno = NewRenoConfig::default();
            reno.initial_window(initial);
            Arc::new(reno)
        }
        TunnelCongestion::Bbr => {
            let mut bbr = BbrConfig::default();
            bbr.initial_window(initial);
            Arc::new(bbr)
        }
    };
    config.congestion_controller_factory(congestion);
    config
}

/// Bytes that the other box may have under way, or unread here, of one stream: a window in flight, and one that waits for
/// acknowledgements of losses.
pub(crate) fn stream_window(tunnel: &Tunnel, held: u64) -> u64 {
    let window = tunnel.product().map_or(DEFAULT_STREAM, |bytes| (2 * bytes).clamp(LEAST_STREAM, MOST_STREAM));
    window.min(held / 4)
}

/// As QUIC writes numbers.
pub(crate) fn number(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}

/// A window that neither losses nor delays change: for capacity that the tunnel shares with nobody.
#[derive(Clone, Debug)]
struct Fixed {
    window: u64,
}

/// Of [`Fixed`]: its window, bytes.
#[derive(Debug)]
struct FixedConfig {
    window: u64,
}

impl ControllerFactory for FixedConfig {
    fn build(self: Arc<Self>, _now: Instant, _current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Fixed { window: self.window })
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

/// Bytes that a stream may have under way where the path is unknown, and the limits where it is known.
const DEFAULT_STREAM: u64 = 4 << 20;
const LEAST_STREAM: u64 = 256 << 10;
const MOST_STREAM: u64 = 64 << 20;
/// Longest silence: mappings of address translators last longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_window_stays_whatever_is_lost() {
        let now = crate::clock::instant();
        let mut fixed = Arc::new(FixedConfig { window: 1_650_000 }).build(now, 1_200);
        fixed.on_congestion_event(now, now, true, 1_000_000);
        fixed.on_mtu_update(1_452);
        assert_eq!(
            (fixed.window(), fixed.initial_window(), fixed.clone_box().window()),
            (1_650_000, 1_650_000, 1_650_000)
        );
    }
}
