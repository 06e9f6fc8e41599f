//! Distributions of the body of a jitter.

use perigee_units::{encode_enum, Time};

/// Distribution of the body of a jitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Body {
    /// Normal around the base.
    Normal {
        /// Standard deviation.
        sd: Time,
    },
    /// Uniform above the base, like the wait for a periodic slot.
    Uniform {
        /// Maximum.
        width: Time,
    },
    /// Symmetric triangle above the base: the sum of two such waits.
    Triangular {
        /// Maximum.
        width: Time,
    },
    /// Log-normal, added to the base.
    LogNormal {
        /// Median of the added delay.
        median: Time,
        /// Standard deviation of its logarithm.
        sigma: f64,
    },
}

encode_enum!(Body { Normal { sd }, Uniform { width }, Triangular { width }, LogNormal { median, sigma } });

impl Body {
    /// The added delay for a standard normal draw, s.
    pub(crate) fn value(&self, g: f64) -> f64 {
        match self {
            Self::Normal { sd } => g * sd.as_secs_f64(),
            Self::Uniform { width } => above(g) * width.as_secs_f64(),
            Self::Triangular { width } => triangular(above(g)) * width.as_secs_f64(),
            Self::LogNormal { median, sigma } => median.as_secs_f64() * libm::exp(sigma * g),
        }
    }
}

/// Probability that a standard normal variable exceeds `g`; uniform if `g` is standard normal.
pub(crate) fn above(g: f64) -> f64 {
    0.5 * libm::erfc(g * std::f64::consts::FRAC_1_SQRT_2)
}

/// Quantile of the symmetric triangle on 0..1: sqrt(u / 2) in its lower half, mirrored in the upper half.
fn triangular(u: f64) -> f64 {
    if u < 0.5 {
        (u / 2.0).sqrt()
    } else {
        1.0 - ((1.0 - u) / 2.0).sqrt()
    }
}
