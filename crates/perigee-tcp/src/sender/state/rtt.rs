//! Round-trip time: SRTT and RTO of RFC 6298 with Linux's variance rules, and a windowed minimum.

use perigee_cc::{TcpSock, WindowedMin};
use perigee_settings::{Config, RtoFloor};
use perigee_units::Time;

use crate::tick::Tick;

/// Variance and RTO. The variance is four times the mean deviation (K of RFC 6298); instead of the minimum RTO of one second (section 2.4),
/// the variance has a minimum, 200 ms in Linux, or the timeout as a whole ([`RtoFloor`]). SRTT itself is in the socket, where congestion
/// controls read it.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    rttvar_us: u32,
    /// Maximum mean deviation in this round.
    mdev_max_us: u32,
    /// The round ends when this position is acknowledged.
    round_end: u64,
    rto_min_us: u32,
    /// Minimum of the variance, us.
    least_variance_us: u32,
    /// Minimum of the sum, us.
    least_us: u64,
    rto_max_us: u64,
    rto_us: u64,
    tick: Tick,
    min: WindowedMin,
    /// The latest sample, until it is taken.
    pub(crate) latest: Option<Time>,
}

impl RttEstimator {
    /// An estimator without samples, with the initial RTO.
    pub(crate) fn new(config: &Config) -> Self {
        let rto_min_us = u32::try_from(config.rto_min.as_micros()).unwrap_or(u32::MAX);
        let rto_max_us = config.rto_max.as_micros();
        let (least_variance_us, least_us) = match config.rto_floor {
            RtoFloor::Variance => (rto_min_us, 0),
            RtoFloor::Timeout => (GRANULARITY_US, u64::from(rto_min_us)),
        };
        Self {
            rttvar_us: 0,
            mdev_max_us: 0,
            round_end: 0,
            rto_min_us,
            least_variance_us,
            least_us,
            rto_max_us,
            rto_us: config.initial_rto.as_micros().min(rto_max_us),
            tick: Tick::new(config.tick),
            min: WindowedMin::default(),
            latest: None,
        }
    }

    /// The RTO without back-off, us, in whole ticks of the host.
    pub(crate) fn rto_us(&self) -> u64 {
        self.tick.whole_us(self.rto_us)
    }

    /// Lower bound of the RTO while SRTT is at least `srtt_us` (us x 8).
    pub(crate) fn least_rto_us(&self, srtt_us: u32) -> u64 {
        self.bounded(u64::from(srtt_us >> 3) + u64::from(self.least_variance_us))
    }

    pub(crate) fn rto_min_us(&self) -> u32 {
        self.rto_min_us
    }

    #[inline(always)]
    fn bounded(&self, timeout_us: u64) -> u64 {
        timeout_us.max(self.least_us).min(self.rto_max_us)
    }

    /// The handshake gave no sample: data start with an RTO of at least three seconds (RFC 6298, section 5.7).
    pub(crate) fn on_handshake_without_sample(&mut self) {
        self.rto_us = self.rto_us.max(RTO_WITHOUT_SAMPLE_US).min(self.rto_max_us);
    }

    /// Takes over a round trip (us x 8) and a deviation (us x 4) that the route remembers, as far as they are greater than those of the
    /// handshake.
    pub(crate) fn remember(&mut self, sk: &mut TcpSock, srtt_us: u32, deviation_us: u32) {
        sk.srtt_us = sk.srtt_us.max(srtt_us);
        if deviation_us > sk.mdev_us {
            sk.mdev_us = deviation_us;
            self.rttvar_us = deviation_us.max(self.least_variance_us);
            self.mdev_max_us = self.rttvar_us;
        }
        self.rto_us = self.bounded(u64::from(sk.srtt_us >> 3) + u64::from(self.rttvar_us));
    }

    /// Updates the windowed minimum with the latest sample.
    #[inline]
    pub(crate) fn on_min_sample(&mut self, sk: &mut TcpSock, now_ms: u32, rtt_us: u32) {
        sk.rtt_min_us = self.min.update(now_ms, rtt_us.max(1));
    }

    /// Takes a sample (RFC 6298, section 2), see [`TcpSock::smooth_rtt`]. As in Linux, the variance falls by at most a quarter per round.
    #[inline(always)]
    pub(crate) fn on_sample(&mut self, sk: &mut TcpSock, rtt_us: u32, snd_una: u64, snd_nxt: u64) {
        let is_first = sk.srtt_us == 0;
        sk.smooth_rtt(rtt_us);
        if is_first {
            self.rttvar_us = sk.mdev_us.max(self.least_variance_us);
            self.mdev_max_us = self.rttvar_us;
            self.round_end = snd_nxt;
        } else {
            if sk.mdev_us > self.mdev_max_us {
                self.mdev_max_us = sk.mdev_us;
                self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
            }
            if snd_una > self.round_end {
                if self.mdev_max_us < self.rttvar_us {
                    self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
                }
                self.round_end = snd_nxt;
                self.mdev_max_us = self.least_variance_us;
            }
        }
        self.rto_us = self.bounded(u64::from(sk.srtt_us >> 3) + u64::from(self.rttvar_us));
    }
}

/// G of RFC 6298: the clock's.
const GRANULARITY_US: u32 = 1000;
/// RTO of data after a retransmitted SYN, whose RTT is unknown (RFC 6298, section 5.7).
const RTO_WITHOUT_SAMPLE_US: u64 = 3_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_delay_gives_its_value_as_srtt_and_an_rto_of_it_plus_the_minimum() {
        let (mut sk, mut rtt) = (TcpSock::new(1448, 10), RttEstimator::new(&Config::default()));
        for round in 0..200 {
            rtt.on_sample(&mut sk, 600_000, round * 10 + 1, round * 10 + 10);
        }
        assert_eq!(sk.srtt_us >> 3, 600_000);
        assert!((800_000..802_000).contains(&rtt.rto_us()), "{}", rtt.rto_us());
    }

    #[test]
    fn the_whole_timeout_has_the_minimum_of_rfc_6298_where_the_setting_says_so() {
        // (2.4): "Whenever RTO is computed, if it is less than 1 second, then the RTO SHOULD be rounded up to 1 second."
        let second = Time::from_secs(1);
        for (rtt_us, expected) in [(600_000, 1_000_000..1_000_001), (1_400_000, 1_401_000..1_402_000)] {
            let config = Config { rto_floor: RtoFloor::Timeout, rto_min: second, ..Config::default() };
            let (mut sk, mut rtt) = (TcpSock::new(1448, 10), RttEstimator::new(&config));
            for round in 0..200 {
                rtt.on_sample(&mut sk, rtt_us, round * 10 + 1, round * 10 + 10);
            }
            assert!(expected.contains(&rtt.rto_us()), "{rtt_us}: {}", rtt.rto_us());
            assert!(rtt.least_rto_us(sk.srtt_us) <= rtt.rto_us());
        }
    }

    #[test]
    fn the_timeout_follows_the_rules_of_rfc_6298_while_round_trips_grow() {
        // (2.2): SRTT = 600, RTTVAR = 300, RTO = 600 + 4 x 300. (2.3): RTTVAR = 3/4 x 300 + 1/4 x 800 = 425, SRTT = 7/8 x 600 +
        // 1/8 x 1400 = 700, RTO = 700 + 4 x 425; then RTTVAR = 3/4 x 425 + 1/4 x 900 = 543.75, SRTT = 7/8 x 700 + 1/8 x 1600.
        let (mut sk, mut rtt) = (TcpSock::new(1448, 10), RttEstimator::new(&Config::default()));
        let timeouts = [600_000, 1_400_000, 1_600_000].map(|sample| {
            rtt.on_sample(&mut sk, sample, 1, 10);
            rtt.rto_us()
        });
        assert_eq!(timeouts, [1_800_000, 2_400_000, 812_500 + 2_175_000]);
    }

    #[test]
    fn without_a_handshake_sample_the_rto_is_at_least_three_seconds() {
        for (initial, expected) in [(1_000_000, 3_000_000), (5_000_000, 5_000_000)] {
            let config = Config { initial_rto: Time::from_micros(initial), ..Config::default() };
            let (mut sk, mut rtt) = (TcpSock::new(1448, 10), RttEstimator::new(&config));
            rtt.on_handshake_without_sample();
            assert_eq!(rtt.rto_us(), expected);
            // The first sample sets it as if no handshake had preceded.
            rtt.on_sample(&mut sk, 600_000, 1, 10);
            assert_eq!(rtt.rto_us(), 1_800_000);
        }
    }
}
