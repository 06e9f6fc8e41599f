//! The E-model: quality of a telephone conversation from its delay and its loss.
//!
//! ITU-T Recommendation G.107 (06/2015), "The E-model: a computational model for use in transmission planning". Inputs that do not
//! depend on the network have the default values of its Table 1. Delays are in ms, losses in percent, levels in dB.
//!
//! Differences from the Recommendation:
//! - Echo is cancelled perfectly, as between packet telephones: T = Tr = 0 in the echo terms, and Ta is the only delay.
//! - A mean opinion score is at least 1; the formula of Annex B falls below that for 0 < R < 6.5.

/// A codec's impairment by loss: ITU-T G.113 (11/2007), Appendix I.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Codec {
    /// Equipment impairment without loss, Ie.
    pub impairment: f64,
    /// Robustness to loss, Bpl, %.
    pub robustness: f64,
}

impl Codec {
    /// G.711 with packet loss concealment (its Appendix I).
    pub const G711_CONCEALED: Self = Self { impairment: 0.0, robustness: 25.1 };
    /// G.711 without concealment.
    pub const G711: Self = Self { impairment: 0.0, robustness: 4.3 };
}

/// The rating R of a conversation with this delay from mouth to ear, ms, and this share of packets that are not played, %.
/// Losses are random (`BurstR` = 1), without an advantage of access (A = 0).
///
/// R = Ro - Is - Id - Ie,eff + A (7-1), and at least 0: below 0 the opinion score is constant (B-4), and means over calls would
/// weigh useless ones by their distance from it. The maximum is 93.21, which G.107 rounds to 93.2.
///
/// ```
/// use perigee_results::{rating, Codec};
/// assert!((rating(0.0, 0.0, Codec::G711) - 93.2).abs() < 0.05);
/// assert_eq!(rating(600.0, 90.0, Codec::G711), 0.0);
/// ```
pub fn rating(mouth_to_ear_ms: f64, lost_percent: f64, codec: Codec) -> f64 {
    let noise = noise();
    let ratio = signal_to_noise(noise);
    let rating = ratio
        - simultaneous(ratio, noise)
        - listener_echo(ratio)
        - absolute_delay(mouth_to_ear_ms)
        - loss(lost_percent, codec);
    rating.max(0.0)
}

/// The mean opinion score of a rating, from 1 to 4.5.
///
/// MOS = 1 + 0.035 R + R (R - 60) (100 - R) 7e-6 (Annex B, B-4)
///
/// ```
/// use perigee_results::opinion;
/// assert!((opinion(80.0) - 4.03).abs() < 0.01);
/// ```
pub fn opinion(rating: f64) -> f64 {
    if rating <= 0.0 {
        1.0
    } else if rating >= 100.0 {
        4.5
    } else {
        (1.0 + 0.035 * rating + rating * (rating - 60.0) * (100.0 - rating) * 7e-6).max(1.0)
    }
}

/// The impairment by a delay from mouth to ear, with the default sensitivity (`sT` = 1, `mT` = 100 ms).
///
/// Idd = 25 { (1 + X^6)^(1/6) - 3 (1 + (X/3)^6)^(1/6) + 2 }, X = log2(Ta / 100 ms), 0 up to 100 ms (7-27, 7-28)
fn absolute_delay(delay_ms: f64) -> f64 {
    if delay_ms <= 100.0 {
        return 0.0;
    }
    let x = libm::log2(delay_ms / 100.0);
    let root = |x: f64| libm::pow(1.0 + libm::pow(x, 6.0), 1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// Ie,eff = Ie + (95 - Ie) Ppl / (Ppl / `BurstR` + Bpl) (7-29)
fn loss(percent: f64, codec: Codec) -> f64 {
    codec.impairment + (95.0 - codec.impairment) * percent / (percent / BURST_RATIO + codec.robustness)
}

/// Ro = 15 - 1.5 (SLR + No) (7-2)
fn signal_to_noise(noise: f64) -> f64 {
    15.0 - 1.5 * (SLR + noise)
}

/// No: the powers of the circuit, of the rooms at both ends and of the noise floor together, dBm0p (7-3).
fn noise() -> f64 {
    decibels(power(CIRCUIT_NOISE) + power(sending_room()) + power(receiving_room()) + power(NOISE_FLOOR + RLR))
}

/// Nos = Ps - SLR - Ds - 100 + 0.004 (Ps - OLR - Ds - 14)^2 (7-4)
fn sending_room() -> f64 {
    let excess = ROOM_NOISE - OLR - D_FACTOR - 14.0;
    ROOM_NOISE - SLR - D_FACTOR - 100.0 + 0.004 * excess * excess
}

/// Nor = RLR - 121 + Pre + 0.008 (Pre - 35)^2, Pre = Pr + 10 log10(1 + 10^((10 - LSTR) / 10)) (7-5, 7-6)
fn receiving_room() -> f64 {
    let effective = ROOM_NOISE + decibels(1.0 + power(10.0 - (STMR + D_FACTOR)));
    let excess = effective - 35.0;
    RLR - 121.0 + effective + 0.008 * excess * excess
}

/// Is = Iolr + Ist + Iq (7-8)
fn simultaneous(ratio: f64, noise: f64) -> f64 {
    too_loud(noise) + side_tone() + quantization(ratio)
}

/// Iolr = 20 { (1 + (Xolr/8)^8)^(1/8) - Xolr/8 }, Xolr = OLR + 0.2 (64 + No - RLR) (7-9, 7-10)
fn too_loud(noise: f64) -> f64 {
    let x = (OLR + 0.2 * (64.0 + noise - RLR)) / 8.0;
    20.0 * (libm::pow(1.0 + libm::pow(x, 8.0), 1.0 / 8.0) - x)
}

/// Ist = 12 (1 + ((S - 13)/6)^8)^(1/8) - 28 (1 + ((S + 1)/19.4)^35)^(1/35) - 13 (1 + ((S - 3)/33)^13)^(1/13) + 29,
/// S = -10 log10(10^(-STMR/10) + e^(-T/4) 10^(-TELR/10)) with T = 0 (7-11, 7-12)
fn side_tone() -> f64 {
    let s = -decibels(power(-STMR) + power(-TELR));
    let term = |x: f64, n: f64| libm::pow(1.0 + libm::pow(x, n), 1.0 / n);
    12.0 * term((s - 13.0) / 6.0, 8.0) - 28.0 * term((s + 1.0) / 19.4, 35.0) - 13.0 * term((s - 3.0) / 33.0, 13.0)
        + 29.0
}

/// Iq = 15 log10(1 + 10^Y + 10^Z), Y = (Ro - 100)/15 + 46/8.4 - G/9, Z = 46/30 - G/40,
/// G = 1.07 + 0.258 Q + 0.0602 Q^2, Q = 37 - 15 log10(qdu) with one unit of quantization distortion (7-13 to 7-17)
fn quantization(ratio: f64) -> f64 {
    let q = 37.0;
    let g = 1.07 + 0.258 * q + 0.0602 * q * q;
    let (y, z) = ((ratio - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0, 46.0 / 30.0 - g / 40.0);
    1.5 * decibels(1.0 + power(10.0 * y) + power(10.0 * z))
}

/// Idle = (Ro - Rle)/2 + ((Ro - Rle)^2 / 4 + 169)^(1/2), Rle = 10.5 (WEPL + 7) (Tr + 1)^(-1/4) with Tr = 0 (7-25, 7-26)
fn listener_echo(ratio: f64) -> f64 {
    let half = (ratio - 10.5 * (WEPL + 7.0)) / 2.0;
    half + (half * half + 169.0).sqrt()
}

/// The power ratio of a level in dB.
fn power(db: f64) -> f64 {
    libm::pow(10.0, db / 10.0)
}

fn decibels(power: f64) -> f64 {
    10.0 * libm::log10(power)
}

// Table 1 of G.107, default values.
/// Send loudness rating, dB.
const SLR: f64 = 8.0;
/// Receive loudness rating, dB.
const RLR: f64 = 2.0;
/// Overall loudness rating, dB.
const OLR: f64 = SLR + RLR;
/// Sidetone masking rating, dB.
const STMR: f64 = 15.0;
/// Factor of the telephones at both ends, Ds and Dr.
const D_FACTOR: f64 = 3.0;
/// Talker echo loudness rating, dB.
const TELR: f64 = 65.0;
/// Weighted echo path loss, dB.
const WEPL: f64 = 110.0;
/// Circuit noise referred to the point of 0 dBr, Nc, dBm0p.
const CIRCUIT_NOISE: f64 = -70.0;
/// Noise floor at the receiving side, Nfor, dBmp.
const NOISE_FLOOR: f64 = -64.0;
/// Room noise at both sides, Ps and Pr, dB(A).
const ROOM_NOISE: f64 = 35.0;
/// Burst ratio of random loss.
const BURST_RATIO: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() <= within, "{value} against {expected}");
    }

    #[test]
    fn the_default_values_give_the_rating_that_the_recommendation_states() {
        // 7.7: "R = 93.2" with all parameters at their default values; the terms to be added up are those of 7.2 to 7.4.
        let ratio = signal_to_noise(noise());
        near(ratio, 94.77, 0.01);
        near(simultaneous(ratio, noise()), 1.41, 0.01);
        near(rating(0.0, 0.0, Codec::G711), 93.2, 0.05);
        near(opinion(rating(0.0, 0.0, Codec::G711)), 4.41, 0.005);
    }

    #[test]
    fn a_rating_stays_within_0_and_93_21_whatever_delay_and_loss() {
        for codec in [Codec::G711, Codec::G711_CONCEALED] {
            for delay_ms in [0.0, 100.0, 150.0, 600.0, 1e9] {
                for lost_percent in [0.0, 1.0, 90.0, 100.0] {
                    let rating = rating(delay_ms, lost_percent, codec);
                    assert!((0.0..=93.21).contains(&rating), "{rating} at {delay_ms} ms and {lost_percent} %");
                }
            }
        }
    }

    #[test]
    fn opinions_are_those_of_table_b_1() {
        for (rating, expected) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            near(opinion(rating), expected, 0.01);
        }
        assert_eq!(
            (opinion(-1.0), opinion(0.0), opinion(3.0), opinion(100.0), opinion(120.0)),
            (1.0, 1.0, 1.0, 4.5, 4.5)
        );
    }

    #[test]
    fn a_delay_impairs_from_100_ms_on_and_by_the_formula_worked_by_hand() {
        assert_eq!((absolute_delay(0.0), absolute_delay(100.0)), (0.0, 0.0));
        // Ta = 200 ms: X = 1, 25 (2^(1/6) - 3 (1 + 3^-6)^(1/6) + 2).
        near(absolute_delay(200.0), 3.044, 0.001);
        // Ta = 400 ms: X = 2, 25 (65^(1/6) - 3 (1 + (2/3)^6)^(1/6) + 2).
        near(absolute_delay(400.0), 24.070, 0.001);
        assert!(absolute_delay(401.0) > absolute_delay(400.0));
    }

    #[test]
    fn a_loss_of_bpl_percent_takes_half_of_what_loss_can_take() {
        // Ie,eff = 95 Ppl / (Ppl + Bpl): half of 95 where Ppl = Bpl.
        near(loss(4.3, Codec::G711), 47.5, 1e-9);
        near(loss(25.1, Codec::G711_CONCEALED), 47.5, 1e-9);
        near(loss(1.0, Codec::G711_CONCEALED), 95.0 / 26.1, 1e-9);
    }
}
