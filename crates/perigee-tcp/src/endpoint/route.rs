//! Memory of routes of closed connections (Linux's `tcp_update_metrics` and `tcp_init_metrics`).

use perigee_cc::{CaState, INFINITE_SSTHRESH};
use std::sync::Arc;

use super::{Choice, Endpoint};
use crate::route_metrics::RouteMetrics;

impl Endpoint {
    /// The memory of the route once this connection has ended; it was `before` until then.
    ///
    /// A longer round trip replaces the one that is known, a shorter one enters at an eighth. A threshold is left where slow start has
    /// ended; one that is known already also rises with a window that never lost.
    #[must_use]
    pub fn route_metrics(&self, before: RouteMetrics) -> RouteMetrics {
        let sk = &self.sender.sk;
        if self.sender.timer.backoff > 0 || sk.srtt_us == 0 {
            return RouteMetrics { srtt_us: 0, ..before };
        }
        let (longer, shorter) = (sk.srtt_us.saturating_sub(before.srtt_us), before.srtt_us.saturating_sub(sk.srtt_us));
        let srtt_us = if longer > 0 { sk.srtt_us } else { before.srtt_us - (shorter >> 3) };
        let deviation_us = (longer.max(shorter) >> 1).max(sk.mdev_us);
        let falls = before.deviation_us.saturating_sub(deviation_us) >> 2;
        let known = before.ssthresh > 0;
        let ssthresh = if sk.snd_ssthresh >= INFINITE_SSTHRESH {
            if known {
                before.ssthresh.max(sk.snd_cwnd / 2)
            } else {
                0
            }
        } else if sk.snd_cwnd > sk.snd_ssthresh && self.sender.state() == CaState::Open {
            sk.snd_ssthresh.max(sk.snd_cwnd / 2)
        } else if known {
            before.ssthresh.max(sk.snd_ssthresh)
        } else {
            0
        };
        RouteMetrics { ssthresh, srtt_us, deviation_us: deviation_us.max(before.deviation_us - falls) }
    }

    /// Lets the connection, which has not begun, begin with what the route remembers.
    #[must_use]
    pub fn remembering(mut self, route: RouteMetrics) -> Self {
        let Choice { config, cc, .. } = &*self.choice;
        self.choice = Arc::new(Choice { config: config.clone(), cc: cc.clone(), route });
        self
    }

    /// The handshake is complete: takes over what the route remembers; returns the window to begin with, of `initial_window` without that.
    /// The handshake's packets are small, so a longer round trip that is remembered replaces theirs.
    pub(super) fn begin_on_route(&mut self, initial_window: u32) -> u32 {
        let RouteMetrics { ssthresh, srtt_us, deviation_us } = self.choice.route;
        let sk = &mut self.sender.sk;
        if ssthresh > 0 {
            sk.snd_ssthresh = ssthresh.min(sk.snd_cwnd_clamp);
        }
        if srtt_us == 0 || sk.srtt_us == 0 {
            return initial_window;
        }
        self.sender.rtt.remember(sk, srtt_us, deviation_us);
        // RFC 3390, for segments of more than 1095 bytes; one segment after a lost SYN.
        if initial_window > 1 {
            initial_window.max(WINDOW_WITH_ROUND_TRIP)
        } else {
            initial_window
        }
    }
}

/// The window of RFC 3390, with which Linux before 2.6.39 begins where it knows a round trip.
const WINDOW_WITH_ROUND_TRIP: u32 = 3;
