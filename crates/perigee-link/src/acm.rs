//! Adaptive coding and modulation: the rate of a carrier of constant symbol rate under fading.
//!
//! The MODCODs of DVB-S2 and DVB-S2X are in `modcods.rs`. Fades: T. Maseng, P. M. Bakken, "A stochastic dynamic model of rain
//! attenuation", IEEE Transactions on Communications 1981, with the offset of Recommendation ITU-R P.1853.
//!
//! The receiver reports each change of Es/N0; the sender changes its MODCOD one signalling delay later. Packets sent with a MODCOD whose
//! threshold exceeds the Es/N0 are lost.
//!
//! Differences from real modems
//! - The loss is all or nothing at the threshold; a real code has a transition of some tenths of a dB.
//! - A frame uses the MODCOD of its instant; frame boundaries are not modelled.
//!
//! Units: dB; symbols per second.

use perigee_units::{Rate, Ratio, Time};

use crate::modcods::{Modcod, DVB_S2, DVB_S2X};
use crate::wander::Wander;
use crate::Steps;

/// A carrier whose MODCOD follows the signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Acm {
    /// Symbol rate, symbols per second.
    pub symbols_per_s: f64,
    /// Both modems know the MODCODs of DVB-S2X, beside those of DVB-S2.
    pub extended: bool,
    /// Margin of the Es/N0 over the threshold that a MODCOD requires, dB.
    pub margin_db: f64,
    /// Additional margin that a faster MODCOD requires, dB.
    pub hysteresis_db: f64,
    /// Delay between a change of the signal and the MODCOD change.
    pub delay: Time,
}

/// Rain attenuation: the exponential of a normal process, less an offset that limits rain to a share of the time.
#[derive(Clone, Debug, PartialEq)]
pub struct RainFade {
    /// Median of the log-normal distribution, dB.
    pub median_db: f64,
    /// Standard deviation of its logarithm.
    pub sigma: f64,
    /// Share of the time with rain.
    pub rain: Ratio,
    /// Time after which the autocorrelation of the normal process is 1/e (P.1853: 5000 s).
    pub memory: Time,
}

impl Acm {
    /// Rate and loss over time for an Es/N0 over time.
    ///
    /// ```
    /// use perigee_link::{Acm, Steps};
    /// use perigee_units::{Ratio, Time};
    /// let acm = Acm { symbols_per_s: 1e6, extended: false, margin_db: 0.0, hysteresis_db: 0.0, delay: Time::from_secs(1) };
    /// let fade = Steps::new([(Time::ZERO, 20.0), (Time::from_secs(10), 1.5)], None).unwrap();
    /// let (rate, loss) = acm.follow(&fade);
    /// // 32APSK 9/10 at first, which is too fast for one second after the fade; then QPSK 1/2.
    /// assert_eq!(rate.at(Time::from_millis(10_900)).as_bps(), 4_453_027);
    /// assert_eq!(loss.at(Time::from_millis(10_900)), Ratio::ONE);
    /// assert_eq!((rate.at(Time::from_secs(11)).as_bps(), loss.at(Time::from_secs(11))), (988_858, Ratio::ZERO));
    /// ```
    pub fn follow(&self, es_n0_db: &Steps<f64>) -> (Steps<Rate>, Steps<Ratio>) {
        let signal: Vec<(Time, f64)> = es_n0_db.iter().collect();
        let mut commanded = self.best(signal.first().map_or(f64::NEG_INFINITY, |(_, db)| *db), 0.0);
        // Each MODCOD with the instant at which its use begins.
        let mut in_use = vec![(Time::ZERO, commanded)];
        for (at, db) in signal.iter().skip(1) {
            let next = self.next(commanded, *db);
            if next != commanded {
                in_use.push((*at + self.delay, next));
                commanded = next;
            }
        }
        let mut instants: Vec<Time> =
            signal.iter().map(|(at, _)| *at).chain(in_use.iter().map(|(at, _)| *at)).collect();
        instants.sort_unstable();
        instants.dedup();
        let at = |instant: &Time| {
            let modcod = in_use[in_use.partition_point(|(from, _)| from <= instant) - 1].1;
            let db = es_n0_db.at(*instant);
            let rate = Rate::from_bps((modcod.efficiency * self.symbols_per_s).round() as u64);
            (*instant, rate, if db < modcod.threshold_db { Ratio::ONE } else { Ratio::ZERO })
        };
        let values: Vec<(Time, Rate, Ratio)> = instants.iter().map(at).collect();
        let rate = Steps::new(values.iter().map(|(at, rate, _)| (*at, *rate)), None);
        let loss = Steps::new(values.iter().map(|(at, _, loss)| (*at, *loss)), None);
        // Both lists start at zero and ascend, so the fallbacks are never used.
        (rate.unwrap_or_else(|| Steps::constant(Rate::ZERO)), loss.unwrap_or_else(|| Steps::constant(Ratio::ONE)))
    }

    /// The MODCOD that follows `current` at this Es/N0: a slower one at once, a faster one only beyond the hysteresis.
    fn next(&self, current: &'static Modcod, db: f64) -> &'static Modcod {
        let lower = self.best(db, 0.0);
        if lower.efficiency < current.efficiency {
            return lower;
        }
        let upper = self.best(db, self.hysteresis_db);
        if upper.efficiency > current.efficiency {
            upper
        } else {
            current
        }
    }

    /// The most efficient MODCOD whose threshold, with margin and hysteresis, is met; the most robust one if none is.
    fn best(&self, db: f64, hysteresis_db: f64) -> &'static Modcod {
        let fits = |modcod: &&Modcod| modcod.threshold_db + self.margin_db + hysteresis_db <= db;
        let most_robust = if self.extended { &DVB_S2X[0] } else { &DVB_S2[0] };
        self.modcods().filter(fits).max_by(|a, b| a.efficiency.total_cmp(&b.efficiency)).unwrap_or(most_robust)
    }

    fn modcods(&self) -> impl Iterator<Item = &'static Modcod> {
        DVB_S2.iter().chain(if self.extended { &DVB_S2X[..] } else { &[] })
    }
}

impl RainFade {
    /// Attenuation over time, dB, one value per second: max(0, exp(m + sigma X) - offset), with X a first-order autoregressive process.
    pub fn attenuation_db(&self, seed: u64, length: Time) -> Steps<f64> {
        let mut wander = Wander::new(seed, "fade".to_owned(), EVERY, self.memory);
        let offset = self.median_db * libm::exp(self.sigma * exceeded_by(self.rain.as_f64()));
        let count = (length.as_nanos() / EVERY.as_nanos()).max(1);
        let value = |second: u64| (self.median_db * libm::exp(self.sigma * wander.value(second)) - offset).max(0.0);
        let values: Vec<f64> = (0..count).map(value).collect();
        let steps = (0..count).map(|second| EVERY * second).zip(values);
        Steps::new(steps, None).unwrap_or_else(|| Steps::constant(0.0))
    }
}

/// The value that a standard normal variable exceeds with this probability, by bisection.
fn exceeded_by(probability: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if 0.5 * libm::erfc(middle * std::f64::consts::FRAC_1_SQRT_2) > probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Interval between the values of a fade.
const EVERY: Time = Time::from_secs(1);

#[cfg(test)]
#[path = "acm_tests.rs"]
mod tests;
