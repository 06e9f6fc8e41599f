//! Adaptive coding and modulation: the rate of a carrier of constant symbol rate under fading.
//!
//! ETSI EN 302 307 V1.2.1 (DVB-S2), tables 12 and 13: the MODCODs of normal FECFRAMEs, with their spectral efficiency and the Es/N0 for
//! quasi error-free reception. Fades: T. Maseng, P. M. Bakken, "A stochastic dynamic model of rain attenuation", IEEE Transactions on
//! Communications 1981, with the offset of Recommendation ITU-R P.1853.
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

use crate::wander::Wander;
use crate::Steps;

/// A modulation and coding scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modcod {
    /// Its name in the standard.
    pub name: &'static str,
    /// Bits per symbol, without pilots.
    pub efficiency: f64,
    /// Es/N0 for quasi error-free reception with an ideal receiver, dB.
    pub threshold_db: f64,
}

/// A carrier whose MODCOD follows the signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Acm {
    /// Symbol rate, symbols per second.
    pub symbols_per_s: f64,
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
    /// let acm = Acm { symbols_per_s: 1e6, margin_db: 0.0, hysteresis_db: 0.0, delay: Time::from_secs(1) };
    /// let fade = Steps::new([(Time::ZERO, 20.0), (Time::from_secs(10), 1.5)], None).unwrap();
    /// let (rate, loss) = acm.follow(&fade);
    /// // 32APSK 9/10 at first, which is too fast for one second after the fade; then QPSK 1/2.
    /// assert_eq!(rate.at(Time::from_millis(10_900)).as_bps(), 4_453_027);
    /// assert_eq!(loss.at(Time::from_millis(10_900)), Ratio::ONE);
    /// assert_eq!((rate.at(Time::from_secs(11)).as_bps(), loss.at(Time::from_secs(11))), (988_858, Ratio::ZERO));
    /// ```
    pub fn follow(&self, es_n0_db: &Steps<f64>) -> (Steps<Rate>, Steps<Ratio>) {
        let signal: Vec<(Time, f64)> = es_n0_db.iter().collect();
        let mut commanded = signal.first().map_or(&DVB_S2[0], |(_, db)| self.best(*db, 0.0));
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
        DVB_S2.iter().filter(fits).max_by(|a, b| a.efficiency.total_cmp(&b.efficiency)).unwrap_or(&DVB_S2[0])
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

const fn modcod(name: &'static str, efficiency: f64, threshold_db: f64) -> Modcod {
    Modcod { name, efficiency, threshold_db }
}

/// MODCODs of DVB-S2 (EN 302 307, table 13), most robust first.
pub static DVB_S2: [Modcod; 28] = [
    modcod("QPSK 1/4", 0.490_243, -2.35),
    modcod("QPSK 1/3", 0.656_448, -1.24),
    modcod("QPSK 2/5", 0.789_412, -0.30),
    modcod("QPSK 1/2", 0.988_858, 1.00),
    modcod("QPSK 3/5", 1.188_304, 2.23),
    modcod("QPSK 2/3", 1.322_253, 3.10),
    modcod("QPSK 3/4", 1.487_473, 4.03),
    modcod("QPSK 4/5", 1.587_196, 4.68),
    modcod("QPSK 5/6", 1.654_663, 5.18),
    modcod("QPSK 8/9", 1.766_451, 6.20),
    modcod("QPSK 9/10", 1.788_612, 6.42),
    modcod("8PSK 3/5", 1.779_991, 5.50),
    modcod("8PSK 2/3", 1.980_636, 6.62),
    modcod("8PSK 3/4", 2.228_124, 7.91),
    modcod("8PSK 5/6", 2.478_562, 9.35),
    modcod("8PSK 8/9", 2.646_012, 10.69),
    modcod("8PSK 9/10", 2.679_207, 10.98),
    modcod("16APSK 2/3", 2.637_201, 8.97),
    modcod("16APSK 3/4", 2.966_728, 10.21),
    modcod("16APSK 4/5", 3.165_623, 11.03),
    modcod("16APSK 5/6", 3.300_184, 11.61),
    modcod("16APSK 8/9", 3.523_143, 12.89),
    modcod("16APSK 9/10", 3.567_342, 13.13),
    modcod("32APSK 3/4", 3.703_295, 12.73),
    modcod("32APSK 4/5", 3.951_571, 13.64),
    modcod("32APSK 5/6", 4.119_540, 14.28),
    modcod("32APSK 8/9", 4.397_854, 15.69),
    modcod("32APSK 9/10", 4.453_027, 16.05),
];

#[cfg(test)]
#[path = "acm_tests.rs"]
mod tests;
