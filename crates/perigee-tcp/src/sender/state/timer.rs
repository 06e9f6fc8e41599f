//! The sender's single timer, and its back-off.

use perigee_units::Time;

/// What the timer is set for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Timer {
    #[default]
    Off,
    Timeout(Time),
    TailProbe(Time),
    Reordering(Time),
    WindowProbe(Time),
}

impl Timer {
    #[inline]
    pub(crate) fn deadline(self) -> Time {
        match self {
            Self::Off => Time::MAX,
            Self::Timeout(at) | Self::TailProbe(at) | Self::Reordering(at) | Self::WindowProbe(at) => at,
        }
    }
}

/// The timer, and the counts that decide when the connection is given up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetransmissionTimer {
    pub(crate) armed: Timer,
    /// Doublings of the RTO since the last RTT sample.
    pub(crate) backoff: u32,
    /// Time of the first timeout since the last progress.
    pub(crate) silent_since: Time,
    /// Window probes since the last ACK.
    pub(crate) unanswered_probes: u32,
    /// An ACK requested a new probe timer, which the output turn sets once for all segments it sends.
    pub(crate) probe_due: bool,
    /// The timer that a turn in a batch deferred: [`crate::sender::Sender::set_deferred_timer`] sets it.
    pub(crate) deferred: Deferred,
    /// Lower bound of the deferred deadline.
    pub(crate) bound: DeadlineBound,
    /// The peer is considered gone; the timer stays off.
    given_up: bool,
}

/// A probe timer deferred at the end of a turn, with the turn's instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Deferred {
    #[default]
    Nothing,
    /// The turn followed an ACK and sent nothing.
    Progress(Time),
    /// The turn sent new data.
    Output(Time),
}

impl RetransmissionTimer {
    /// Gives up: the timer stays off.
    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
        self.armed = Timer::Off;
    }

    /// Whether the timer is deferred.
    #[inline]
    pub(crate) fn is_deferred(&self) -> bool {
        self.deferred != Deferred::Nothing
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// The peer's window opened: window probes end.
    #[inline]
    pub(crate) fn end_window_probes(&mut self) {
        if matches!(self.armed, Timer::WindowProbe(_)) {
            self.armed = Timer::Off;
            self.backoff = 0;
            self.unanswered_probes = 0;
        }
    }
}

/// The deferred timer fires no earlier than `at` while SRTT (us x 8) is at least `srtt_us`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeadlineBound {
    pub(crate) at: Time,
    pub(crate) srtt_us: u32,
}

/// Tail loss probe (RFC 8985, section 7): at most one is outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TailProbe {
    pub(crate) outstanding: Option<OutstandingProbe>,
    /// New data leave as the probe, regardless of the congestion window.
    pub(crate) new_data_due: bool,
    /// The data sent in this turn are the probe.
    pub(crate) sent: bool,
}

impl TailProbe {
    /// Whether no probe is outstanding or about to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding.is_none() && !self.new_data_due && !self.sent
    }
}

/// A probe that is not yet acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutstandingProbe {
    /// End of data when it was sent.
    pub(crate) end: u64,
    pub(crate) is_retransmission: bool,
}
