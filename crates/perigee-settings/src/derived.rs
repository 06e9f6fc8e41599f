//! Consequences of the settings of a host's TCP: those that differ from the defaults, and what several mean together.

use std::fmt;

use perigee_units::{Bytes, Encode, Time};

use crate::list::{Config, Setting, WindowShare, SETTINGS};
use crate::systems::differences;
use crate::value::Value;

impl Config {
    /// The settings whose values are not the defaults, with these values, in the order of [`SETTINGS`].
    ///
    /// ```
    /// use perigee_settings::{Config, Value};
    ///
    /// let config = Config { sack: false, ..Config::default() };
    /// let different: Vec<_> = config.differences().map(|(setting, value)| (setting.name, value)).collect();
    /// assert_eq!(different, [("sack", Value::Switch(false))]);
    /// ```
    pub fn differences(&self) -> impl Iterator<Item = (&'static Setting, Value)> + '_ {
        differences(self, &Self::default()).into_iter()
    }

    /// The largest window that the receive buffer lets the host advertise.
    ///
    /// Where a fixed share of the buffer is window, Linux lets it grow without bound only if the memory of a segment,
    /// counted as window, is no more than its payload; otherwise it halves both until it is, and the window ends there
    /// (`__tcp_grow_window`).
    #[must_use]
    pub fn largest_window(&self) -> Bytes {
        let (largest, memory) = (self.rmem[2].as_u64(), self.segment_memory.as_u64());
        let Some(share) = self.window_share.fixed() else {
            let payload = u64::from(self.mss) - u64::from(self.option_bytes());
            return Bytes::new((largest * measured_share(payload, memory)) >> SHARE_SHIFT);
        };
        let (mut memory, mut window) = ((memory * share) >> SHARE_SHIFT, (largest * share) >> SHARE_SHIFT);
        while memory > u64::from(self.mss) {
            memory /= 2;
            window /= 2;
        }
        Bytes::new(window)
    }

    /// Options of each segment with data, bytes: timestamps, where they are on (RFC 7323, Appendix A).
    #[must_use]
    pub fn option_bytes(&self) -> u32 {
        if self.timestamps {
            TIMESTAMP_BYTES
        } else {
            0
        }
    }

    /// How long data are retransmitted without an acknowledgement before the connection is given up: `retries2` timeouts, the
    /// first of 200 ms whatever the path's is, each twice the one before up to `rto_max`
    /// (Linux's `tcp_model_timeout`; RFC 1122, section 4.2.3.5).
    ///
    /// ```
    /// use perigee_settings::Config;
    /// use perigee_units::Time;
    ///
    /// assert_eq!(Config::default().longest_silence(), Time::from_millis(924_600));
    /// ```
    #[must_use]
    pub fn longest_silence(&self) -> Time {
        self.doubling_timeouts(MODEL_RTO, self.retries2)
    }

    /// How long a SYN is repeated without an answer before the connection is given up, even if `syn_linear_timeouts` leave it retries:
    /// the `syn_retries` timeouts that double from `initial_rto`, and the one before them (`tcp_write_timeout`).
    ///
    /// ```
    /// use perigee_settings::Config;
    /// use perigee_units::Time;
    ///
    /// assert_eq!(Config::default().longest_handshake(), Time::from_secs(127));
    /// ```
    #[must_use]
    pub fn longest_handshake(&self) -> Time {
        self.doubling_timeouts(self.initial_rto, self.syn_retries)
    }

    /// The sum of a first timeout and of those of `retries` retries, each twice the one before up to `rto_max`.
    fn doubling_timeouts(&self, first: Time, retries: u32) -> Time {
        let doublings = (self.rto_max.as_nanos() / first.as_nanos()).max(1).ilog2().min(retries);
        first * ((2 << doublings) - 1) + self.rto_max * u64::from(retries - doublings)
    }
}

/// Every setting by its name.
impl Encode for Config {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for setting in SETTINGS {
            write!(out, "{}=", setting.name)?;
            setting.get(self).encode(out)?;
            out.write_str(",")?;
        }
        Ok(())
    }
}

impl WindowShare {
    /// The share, in parts of 2^[`SHARE_SHIFT`]; `None` if it is measured.
    #[must_use]
    pub const fn fixed(self) -> Option<u64> {
        match self {
            Self::Half => Some(1 << (SHARE_SHIFT - 1)),
            Self::ThreeQuarters => Some(3 << (SHARE_SHIFT - 2)),
            Self::Measured => None,
        }
    }
}

/// Linux's `TCP_RTO_MIN`.
const MODEL_RTO: Time = Time::from_millis(200);

/// Shares of the receive buffer are of 256, as in Linux (`TCP_RMEM_TO_WIN_SCALE`).
pub const SHARE_SHIFT: u32 = 8;
/// Timestamps option with padding.
const TIMESTAMP_BYTES: u32 = 12;

/// The part of the buffer that is window, of 256, where a full segment of `payload` bytes takes `memory`. Never all of
/// it, even where the memory that is set is less than the payload.
pub fn measured_share(payload: u64, memory: u64) -> u64 {
    ((payload << SHARE_SHIFT) / memory).clamp(1, (1 << SHARE_SHIFT) - 1)
}
