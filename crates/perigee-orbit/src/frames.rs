//! Places on the Earth, and how the Earth stands among the stars.

use perigee_units::encode_struct;

use crate::Utc;

/// A vector of three coordinates, km.
pub(crate) type Vector = [f64; 3];

/// A place, geodetic on the ellipsoid of WGS84.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// North of the equator, degrees.
    pub lat_deg: f64,
    /// East of Greenwich, degrees.
    pub lon_deg: f64,
    /// Above the ellipsoid, m.
    pub alt_m: f64,
}

impl Place {
    /// Elevation and azimuth of a satellite, degrees, and its distance, km; `satellite` is in TEME.
    pub fn look(self, t: Utc, satellite: [f64; 3]) -> (f64, f64, f64) {
        let view = Station::new(self).at(t);
        let (range, sine) = view.range_and_sine(satellite);
        (libm::asin(sine.clamp(-1.0, 1.0)).to_degrees(), view.azimuth_deg(satellite), range)
    }
}

encode_struct!(Place { lat_deg, lon_deg, alt_m });

/// A place and its direction upwards in Earth-fixed coordinates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Station {
    position: Vector,
    up: Vector,
}

/// A station as it stands among the stars at one instant, in the frame of SGP4 (TEME).
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) position: Vector,
    north: Vector,
    east: Vector,
    up: Vector,
}

impl Station {
    pub(crate) fn new(place: Place) -> Self {
        let (lat, lon) = (place.lat_deg.to_radians(), place.lon_deg.to_radians());
        let (sin_lat, cos_lat) = (libm::sin(lat), libm::cos(lat));
        let up = [cos_lat * libm::cos(lon), cos_lat * libm::sin(lon), sin_lat];
        Self { position: earth_fixed(sin_lat, up, place.alt_m / 1000.0), up }
    }

    /// The station at an instant. Polar motion (some 10 m) and the difference between UT1 and UTC (below 0.9 s) are left out.
    pub(crate) fn at(&self, t: Utc) -> View {
        let angle = gmst_rad(t);
        let (sin, cos) = (libm::sin(angle), libm::cos(angle));
        let turn = |[x, y, z]: Vector| [cos * x - sin * y, sin * x + cos * y, z];
        let up = turn(self.up);
        let level = libm::sqrt(up[0] * up[0] + up[1] * up[1]);
        // At a pole every direction is north; the one that is taken there is without meaning, and harmless.
        let east = if level > 0.0 { [-up[1] / level, up[0] / level, 0.0] } else { [0.0, 1.0, 0.0] };
        View { position: turn(self.position), north: cross(up, east), east, up }
    }

    /// Distance from the centre of the Earth, km.
    pub(crate) fn radius(&self) -> f64 {
        norm(self.position)
    }

    /// Latitude as seen from the centre of the Earth.
    pub(crate) fn geocentric_latitude(&self) -> f64 {
        libm::asin(self.position[2] / self.radius())
    }

    /// The angle between two stations as seen from the centre of the Earth.
    pub(crate) fn angle_to(&self, other: &Self) -> f64 {
        angle(self.position, other.position)
    }
}

impl View {
    /// The distance of a satellite, km, and the sine of its elevation.
    pub(crate) fn range_and_sine(&self, satellite: Vector) -> (f64, f64) {
        let line = minus(satellite, self.position);
        let range = norm(line);
        (range, dot(line, self.up) / range)
    }

    /// The azimuth of a satellite, degrees from north to east.
    pub(crate) fn azimuth_deg(&self, satellite: Vector) -> f64 {
        let line = minus(satellite, self.position);
        let azimuth = libm::atan2(dot(line, self.east), dot(line, self.north)).to_degrees();
        if azimuth < 0.0 {
            azimuth + 360.0
        } else {
            azimuth
        }
    }
}

/// Greenwich mean sidereal time, IAU 1982, with UTC in the place of UT1 (Vallado, "Fundamentals of Astrodynamics", eq. 3-45):
/// 67310.54841 s + (876600 h + 8640184.812866 s) T + 0.093104 s T^2 - 6.2e-6 s T^3, T in Julian centuries since J2000.
///
/// ```
/// use perigee_orbit::{gmst_rad, Utc};
/// // Vallado, example 3-5: 152.578787886 degrees on 20 August 1992 at 12:14 UT1.
/// let angle = gmst_rad(Utc::instant("1992-08-20T12:14:00").unwrap());
/// assert!((angle.to_degrees() - 152.578_787_886).abs() < 1e-6);
/// ```
pub fn gmst_rad(t: Utc) -> f64 {
    let (days, ns) = t.days_since_j2000();
    let of_day_s = ns as f64 * 1e-9;
    let centuries = (days as f64 + of_day_s / DAY_S) / 36_525.0;
    // 876600 h T are the days since J2000: whole days are whole turns.
    let seconds =
        67_310.548_41 + of_day_s + centuries * (8_640_184.812_866 + centuries * (0.093_104 - centuries * 6.2e-6));
    let turns = seconds / DAY_S;
    (turns - libm::floor(turns)) * TURN
}

/// Geodetic to Earth-fixed coordinates: N = a / sqrt(1 - e^2 sin^2 lat), x and y are (N + h) up, z is (N (1 - e^2) + h) up; km.
fn earth_fixed(sin_lat: f64, up: Vector, height: f64) -> Vector {
    let square = FLATTENING * (2.0 - FLATTENING);
    let normal = EQUATOR_KM / libm::sqrt(1.0 - square * sin_lat * sin_lat);
    [(normal + height) * up[0], (normal + height) * up[1], (normal * (1.0 - square) + height) * up[2]]
}

pub(crate) fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub(crate) fn norm(a: Vector) -> f64 {
    libm::sqrt(dot(a, a))
}

/// The angle between two directions.
pub(crate) fn angle(a: Vector, b: Vector) -> f64 {
    libm::acos((dot(a, b) / (norm(a) * norm(b))).clamp(-1.0, 1.0))
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

const DAY_S: f64 = 86_400.0;
const TURN: f64 = 2.0 * std::f64::consts::PI;
/// Semi-major axis of WGS84, km.
pub(crate) const EQUATOR_KM: f64 = 6378.137;
/// Flattening of WGS84.
const FLATTENING: f64 = 1.0 / 298.257_223_563;
/// How fast the Earth turns, rad/s.
pub(crate) const EARTH_RATE: f64 = 7.292_115e-5;
/// Speed of light, km/s.
pub(crate) const LIGHT_KM_S: f64 = 299_792.458;

#[cfg(test)]
mod tests {
    use super::*;

    fn station(lat_deg: f64, lon_deg: f64, alt_m: f64) -> Station {
        Station::new(Place { lat_deg, lon_deg, alt_m })
    }

    #[test]
    fn the_ellipsoid_has_the_axes_of_wgs84() {
        let near = |a: Vector, b: Vector| assert!(norm(minus(a, b)) < 1e-6, "{a:?} {b:?}");
        near(station(0.0, 0.0, 0.0).position, [6378.137, 0.0, 0.0]);
        near(station(0.0, 90.0, 1000.0).position, [0.0, 6379.137, 0.0]);
        near(station(90.0, 0.0, 0.0).position, [0.0, 0.0, 6_356.752_314_245]);
    }

    #[test]
    fn what_stands_above_a_station_is_in_its_zenith_and_what_is_north_of_it_at_azimuth_zero() {
        let view = station(48.0, 11.0, 500.0).at(Utc::day("2024-03-01").unwrap());
        let at = |up: f64, north: f64, east: f64| {
            [0, 1, 2].map(|i| view.position[i] + up * view.up[i] + north * view.north[i] + east * view.east[i])
        };
        let (range, sine) = view.range_and_sine(at(550.0, 0.0, 0.0));
        assert!((range - 550.0).abs() < 1e-9 && (sine - 1.0).abs() < 1e-12);
        let azimuths = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)].map(|(n, e)| view.azimuth_deg(at(1.0, n, e)));
        for (azimuth, expected) in azimuths.iter().zip([0.0, 90.0, 180.0, 270.0]) {
            assert!((azimuth - expected).abs() < 1e-9, "{azimuths:?}");
        }
    }
}
