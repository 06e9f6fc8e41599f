//! Rate adaptation of a video player: the choice of the bit rate of the next segment.

use std::fmt::{self, Display, Formatter};

use perigee_units::{encode_enum, Rate, Time};

/// The algorithm of rate adaptation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adaptation {
    /// Adapts to the buffer: BOLA-BASIC of Spiteri, Urgaonkar and Sitaraman, INFOCOM 2016.
    Bola,
    /// Adapts to the rate: the harmonic mean of the latest five downloads ("RB" of Yin, Jindal, Sekar and Sinopoli, SIGCOMM 2015).
    Rate,
}

impl Adaptation {
    /// Names in studies, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["bola", "rate"];

    /// The algorithm of a name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Bola, Self::Rate].into_iter().find(|one| one.as_str() == word)
    }

    /// Its name in studies.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl Display for Adaptation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The player's state when it chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// Playing time in the buffer.
    pub(crate) buffered: Time,
    /// Rates of the downloads so far, bit/s, the latest last.
    pub(crate) rates_bps: &'a [f64],
}

/// The index in `ladder`, whose rates rise, of the rate of the next segment.
pub(crate) fn rung(
    algorithm: Adaptation,
    ladder: &[Rate],
    (segment, buffer): (Time, Time),
    observed: Observed<'_>,
) -> usize {
    match algorithm {
        Adaptation::Bola => bola(ladder, segment.as_secs_f64(), buffer.as_secs_f64(), observed.buffered.as_secs_f64()),
        Adaptation::Rate => by_rate(ladder, observed.rates_bps),
    }
}

/// BOLA-BASIC, (10) and 3.3: the rung m with the largest (V v(m) + V gp - Q) / S(m), with Q = `buffered_s` / p segments in
/// the buffer, S(m) the size of a segment, v(m) = ln(S(m) / S(lowest)), and V = (Qmax - 1) / (v(highest) + gp).
fn bola(ladder: &[Rate], segment_s: f64, buffer_s: f64, buffered_s: f64) -> usize {
    let rate = |rung: usize| ladder[rung].as_bps() as f64;
    let utility = |rung: usize| libm::log(rate(rung) / rate(0));
    let control = (buffer_s / segment_s - 1.0) / (utility(ladder.len() - 1) + GAMMA_P);
    let segments = buffered_s / segment_s;
    let value = |rung: usize| (control * (utility(rung) + GAMMA_P) - segments) / rate(rung);
    (0..ladder.len()).fold(0, |best, rung| if value(rung) >= value(best) { rung } else { best })
}

/// The highest rung whose rate is at most the harmonic mean of the latest downloads; the lowest before there is one.
fn by_rate(ladder: &[Rate], rates_bps: &[f64]) -> usize {
    let latest = &rates_bps[rates_bps.len().saturating_sub(DOWNLOADS)..];
    let mean = latest.len() as f64 / latest.iter().map(|rate| 1.0 / rate).sum::<f64>();
    // Without downloads the mean is NaN, which no rate is at most.
    ladder.iter().rposition(|rate| rate.as_bps() as f64 <= mean).unwrap_or(0)
}

/// Weight of playback without stalls (gamma p of BOLA): 5, with which its authors evaluate it.
const GAMMA_P: f64 = 5.0;
/// Number of downloads in the harmonic mean.
const DOWNLOADS: usize = 5;

encode_enum!(Adaptation { Bola, Rate });

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder() -> Vec<Rate> {
        [0.5, 1.0, 2.0, 4.0].map(Rate::from_mbps).to_vec()
    }

    fn bola_at(buffered_s: f64) -> usize {
        bola(&ladder(), 4.0, 40.0, buffered_s)
    }

    #[test]
    fn bola_climbs_the_ladder_where_its_objective_says() {
        // V = 9 / (ln 8 + 5) = 1.27124. Rung m is as good as rung m + 1, twice its rate, where
        // Q = V (v(m) - ln 2 + 5): 5.4750, 6.3562 and 7.2373 segments of 4 s.
        for (below, threshold_s) in [(0, 21.900), (1, 25.425), (2, 28.949)] {
            assert_eq!((bola_at(threshold_s - 0.01), bola_at(threshold_s + 0.01)), (below, below + 1));
        }
        assert_eq!((bola_at(0.0), bola_at(36.0)), (0, 3));
    }

    #[test]
    fn the_rate_is_the_harmonic_mean_of_the_latest_five() {
        assert_eq!(by_rate(&ladder(), &[]), 0);
        assert_eq!(by_rate(&ladder(), &[2.5e6]), 2);
        // 2 / (1 / 1 + 1 / 4) = 1.6
        assert_eq!(by_rate(&ladder(), &[1e6, 4e6]), 1);
        assert_eq!(by_rate(&ladder(), &[1e3, 4e6, 4e6, 4e6, 4e6, 4e6]), 3);
        assert_eq!(by_rate(&ladder(), &[1e3]), 0);
    }

    #[test]
    fn a_ladder_of_one_rung_leaves_no_choice() {
        assert_eq!((bola(&ladder()[..1], 4.0, 8.0, 4.0), by_rate(&ladder()[..1], &[1e9])), (0, 0));
    }
}
