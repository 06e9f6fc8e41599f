//! Quantities as columns of result tables have them: in a fixed unit for each kind.

use crate::{Bytes, Rate, Ratio, Time};

/// The number and the unit of a text that is a quantity: times in ms, rates in Mbit/s, sizes in B, shares in %.
///
/// These are the units of the result columns that such a quantity is compared with (`rtt_mean_ms`, `goodput_mbps`,
/// `queue_bytes`, `retransmitted_percent`). `None` where the text is no quantity; `unlimited` is an infinite rate.
///
/// ```
/// use perigee_units::in_column_unit;
/// assert_eq!(in_column_unit("0.3 s"), Some((300.0, "ms")));
/// assert_eq!(in_column_unit("100 kbit/s"), Some((0.1, "Mbit/s")));
/// assert_eq!(in_column_unit("1.5 MB"), Some((1_500_000.0, "B")));
/// assert_eq!(in_column_unit("100 ppm"), Some((0.01, "%")));
/// assert_eq!(in_column_unit("unlimited"), Some((f64::INFINITY, "Mbit/s")));
/// assert_eq!(in_column_unit("cubic"), None);
/// ```
pub fn in_column_unit(text: &str) -> Option<(f64, &'static str)> {
    if let Ok(time) = text.parse::<Time>() {
        return Some((time.as_millis_f64(), "ms"));
    }
    if let Ok(rate) = text.parse::<Rate>() {
        return Some((if rate == Rate::UNLIMITED { f64::INFINITY } else { rate.as_mbps() }, "Mbit/s"));
    }
    if let Ok(size) = text.parse::<Bytes>() {
        return Some((size.as_u64() as f64, "B"));
    }
    let share = text.parse::<Ratio>().ok()?;
    // Shares are read at a scale of 1e-15: rounded there, a percentage is the decimal number that was written.
    Some(((share.as_f64() * 1e15).round() / 1e13, "%"))
}

#[cfg(test)]
mod tests {
    use super::in_column_unit;

    #[test]
    fn a_share_is_the_number_that_was_written() {
        for hundredths in 0..=10_000 {
            let percent = f64::from(hundredths) / 100.0;
            assert_eq!(in_column_unit(&format!("{percent} %")), Some((percent, "%")));
        }
    }

    #[test]
    fn a_number_without_a_unit_and_a_wrong_unit_are_no_quantities() {
        for text in ["", "300", "300 mbit", "-1 ms", "101 %", "1e300 GB", "geo", "10.0.0.1"] {
            assert_eq!(in_column_unit(text), None, "{text}");
        }
    }
}
