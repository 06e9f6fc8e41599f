//! State of an endpoint for result tables.

use perigee_cc::CaState;
use perigee_units::Time;

use crate::control::Counters;

/// State of an endpoint. Packets are datagrams of the configured size, as the algorithm counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Congestion window, packets; the stack's own controls count bytes, rounded down.
    pub cwnd: u32,
    /// Slow start threshold, packets; `None` before the first reduction, and of the stack's own controls.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time as the algorithm sees it; of the stack's own controls, the stack's. Zero before a sample.
    pub srtt: Time,
    /// Windowed minimum of the round-trip time; `None` before a sample, and of the stack's own controls.
    pub rtt_min: Option<Time>,
    /// Packets in flight: sent, neither acknowledged nor deemed lost; `None` of the stack's own controls.
    pub inflight: Option<u32>,
    /// Packets acknowledged; `None` of the stack's own controls.
    pub delivered: Option<u64>,
    /// Packets deemed lost.
    pub lost: u64,
    /// Whether packets that leave now count as limited by the application; `None` of the stack's own controls.
    pub app_limited: Option<bool>,
    /// Pacing rate in bit/s; `None` without pacing.
    pub pacing_rate_bps: Option<u64>,
    /// Congestion state; `None` of the stack's own controls.
    pub ca_state: Option<CaState>,
    /// Datagrams sent, by this connection.
    pub sent_datagrams: u64,
    /// Datagrams received, by this connection.
    pub received_datagrams: u64,
    /// Times that everything deemed lost turned out to have arrived.
    pub spurious_losses: u64,
    /// Probe timeouts; `None` of the stack's own controls, and with real keys, whose peer may not let them be told.
    pub probe_timeouts: Option<u64>,
    /// Counts of the adapter.
    pub counters: Counters,
    /// The reason why no further packet leaves; `None` of the stack's own controls.
    pub limit: Option<Limit>,
}

/// The reason why an endpoint sends no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Limit {
    /// The handshake.
    #[default]
    Handshake,
    /// All data are sent and acknowledged.
    Idle,
    /// All data are sent, and the congestion window has space.
    Application,
    /// The congestion window is full.
    Window,
    /// The pacer holds a packet back.
    Pacing,
    /// Data wait for credit of the peer, or for the send window.
    FlowControl,
}

/// Times since the connection opened during which something limited what an endpoint sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Data were unsent or unacknowledged.
    pub busy: Time,
    /// The peer's flow control kept data back.
    pub flow_control: Time,
    /// The application had nothing more to send, though the congestion window had space; acknowledged or not.
    pub application: Time,
    /// The congestion window was full.
    pub window: Time,
    /// The pacer held a packet back.
    pub pacing: Time,
    /// The handshake was not complete.
    pub handshake: Time,
}

/// The limit in force, and the time spent under each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chronograph {
    limit: Limit,
    /// `None` before the connection opens.
    since: Option<Time>,
    elapsed: [Time; Limit::FlowControl as usize + 1],
}

impl Chronograph {
    /// The connection opens, in its handshake.
    pub(crate) fn open(&mut self, now: Time) {
        self.since = Some(now);
    }

    /// This limit is in force from `now` on.
    pub(crate) fn note(&mut self, limit: Limit, now: Time) {
        if limit != self.limit {
            self.elapsed[self.limit as usize] = self.under(self.limit, now);
            (self.limit, self.since) = (limit, Some(now));
        }
    }

    pub(crate) fn limit(&self) -> Limit {
        self.limit
    }

    fn under(&self, limit: Limit, now: Time) -> Time {
        let since = self.since.filter(|_| limit == self.limit);
        self.elapsed[limit as usize] + since.and_then(|since| now.checked_sub(since)).unwrap_or(Time::ZERO)
    }

    /// The times until `now`.
    pub(crate) fn limits(&self, now: Time) -> Limits {
        let under = |limit| self.under(limit, now);
        let (flow_control, waiting) = (under(Limit::FlowControl), under(Limit::Application));
        Limits {
            busy: waiting + flow_control + under(Limit::Window) + under(Limit::Pacing),
            flow_control,
            application: waiting + under(Limit::Idle),
            window: under(Limit::Window),
            pacing: under(Limit::Pacing),
            handshake: under(Limit::Handshake),
        }
    }
}
