//! The one timer of the sending half, and its back-off.

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

/// The timer, and what it counts until the connection is given up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetransmissionTimer {
    pub(crate) armed: Timer,
    /// Doublings of the timeout since the last round-trip sample.
    pub(crate) backoff: u32,
    /// The first timeout since the last progress.
    pub(crate) silent_since: Time,
    /// Window probes since the last acknowledgement.
    pub(crate) unanswered_probes: u32,
    /// Progress asks for a new probe timer, which the turn of output sets: once for all that it sends.
    pub(crate) probe_due: bool,
    /// What a turn in a batch has left to be set: [`crate::sender::Sender::settle_timer`].
    pub(crate) put_off: PutOff,
    /// When what is put off is due at the earliest.
    pub(crate) earliest: Earliest,
    /// The peer is taken to be gone; the timer is off for good.
    given_up: bool,
}

/// A probe timer that the end of a turn at an instant has left to be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum PutOff {
    #[default]
    Nothing,
    /// After progress that let nothing out.
    Progress(Time),
    /// After new data.
    Output(Time),
}

impl RetransmissionTimer {
    /// The peer does not answer: no timer is set any more.
    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
        self.armed = Timer::Off;
    }

    /// Whether the end of a turn has left a timer to be set.
    #[inline]
    pub(crate) fn is_put_off(&self) -> bool {
        self.put_off != PutOff::Nothing
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// The peer's window has opened: probes of it end.
    #[inline]
    pub(crate) fn end_window_probes(&mut self) {
        if matches!(self.armed, Timer::WindowProbe(_)) {
            self.armed = Timer::Off;
            self.backoff = 0;
            self.unanswered_probes = 0;
        }
    }
}

/// Nothing that is put off is due before an instant, as long as the smoothed round-trip time, us x 8, is at least this.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Earliest {
    pub(crate) at: Time,
    pub(crate) srtt_us: u32,
}

/// A tail loss probe (RFC 8985, section 7): at most one is outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TailProbe {
    pub(crate) outstanding: Option<OutstandingProbe>,
    /// New data leave as the probe, whatever the congestion window says.
    pub(crate) new_data_due: bool,
    /// The data sent in this turn are the probe.
    pub(crate) sent: bool,
}

impl TailProbe {
    /// Whether none is outstanding or about to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding.is_none() && !self.new_data_due && !self.sent
    }
}

/// A probe that was sent and not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutstandingProbe {
    /// End of data when it was sent.
    pub(crate) end: u64,
    pub(crate) is_retransmission: bool,
}
