//! Quantiles of the sizes of web requests and responses, in bytes, as the authors of PackMime-HTTP published them with ns-2 (release 2.35).
//!
//! Bodies of distributions are pairs of a share and the size that this share does not exceed; tails are pairs of base-2 logarithms of a
//! share and of the size that this share exceeds, which end in a straight line: a Pareto tail.

/// Points of a distribution in ascending order, with linear interpolation, and extrapolation of the first and last line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantiles(&'static [(f64, f64)]);

impl Quantiles {
    /// The value at `x`.
    pub(crate) fn at(self, x: f64) -> f64 {
        let points = self.0;
        let after = points.partition_point(|(known, _)| *known <= x).clamp(1, points.len() - 1);
        let ((x0, y0), (x1, y1)) = (points[after - 1], points[after]);
        y0 + (y1 - y0) / (x1 - x0) * (x - x0)
    }

    /// The size that a share exceeds, for a tail.
    pub(crate) fn power(self, share: f64) -> f64 {
        libm::exp2(self.at(libm::log2(share.max(f64::MIN_POSITIVE))))
    }
}

/// Answers that a cached copy is still valid.
pub(crate) const CACHED: Quantiles = Quantiles(&[
    (0.0001, 4.645),
    (0.0102, 22.7357),
    (0.0203, 40.8041),
    (0.0304, 53.0108),
    (0.0405, 61.468),
    (0.0607, 67.3933),
    (0.1011, 74.8092),
    (0.1314, 93.5693),
    (0.1617, 104.58),
    (0.2122, 114.273),
    (0.2627, 120.483),
    (0.3132, 125.119),
    (0.3637, 129.053),
    (0.4142, 132.973),
    (0.4647, 137.47),
    (0.5152, 142.186),
    (0.5657, 146.904),
    (0.6162, 151.478),
    (0.64649, 155.403),
    (0.66669, 159.389),
    (0.68689, 165.018),
    (0.70709, 172.7),
    (0.72729, 183.365),
    (0.73739, 189.766),
    (0.74749, 195.845),
    (0.76769, 203.987),
    (0.79799, 211.114),
    (0.83839, 225.722),
    (0.87879, 239.952),
    (0.90909, 253.434),
    (0.92929, 261.539),
    (0.95959, 268.487),
    (0.99999, 272.234),
]);

/// Documents.
pub(crate) const DOWNLOADED: Quantiles = Quantiles(&[
    (-18.1793, 25.8765),
    (-6.06098, 16.0331),
    (-5.69376, 15.739),
    (-5.32653, 15.4804),
    (-4.95931, 15.3003),
    (-4.59209, 15.2045),
    (-4.22486, 15.0978),
    (-3.85764, 14.8675),
    (-3.49042, 14.4968),
    (-3.1232, 14.0976),
    (-2.75597, 13.7783),
    (-2.38875, 13.5042),
    (-2.02153, 13.1478),
    (-1.65431, 12.6008),
    (-1.28708, 11.8545),
    (-0.91986, 10.9303),
    (-0.55264, 9.86075),
    (-0.18542, 8.70213),
    (-0.0018, 8.10797),
]);

/// Requests up to the median.
pub(crate) const SMALL_REQUESTS: Quantiles = Quantiles(&[
    (0.00003, 50.9777),
    (0.01013, 93.8217),
    (0.02023, 123.301),
    (0.03033, 146.594),
    (0.04043, 168.813),
    (0.05053, 184.263),
    (0.06063, 193.95),
    (0.08084, 204.696),
    (0.10104, 217.623),
    (0.13134, 245.269),
    (0.16164, 265.16),
    (0.20204, 280.193),
    (0.25255, 294.738),
    (0.31315, 312.564),
    (0.36365, 325.49),
    (0.43436, 339.898),
    (0.51516, 353.177),
    (0.61617, 367.9),
    (0.72728, 383.159),
    (0.83839, 398.626),
    (1.0, 421.788),
]);

/// Requests above the median.
pub(crate) const LARGE_REQUESTS: Quantiles = Quantiles(&[
    (-17.7791, 19.7578),
    (-4.13684, 10.5646),
    (-3.77783, 10.3239),
    (-3.41883, 10.1034),
    (-3.05982, 9.93459),
    (-2.70081, 9.8393),
    (-2.34181, 9.76884),
    (-1.9828, 9.64712),
    (-1.62379, 9.42776),
    (-1.26479, 9.16992),
    (-0.90578, 8.95525),
    (-0.54678, 8.82669),
    (-0.18777, 8.75459),
    (-0.00827, 8.72795),
]);
