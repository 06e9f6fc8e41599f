//! A satellite that SGP4 moves.

use crate::elements::Elements;
use crate::frames::{norm, Vector, EARTH_RATE, EQUATOR_KM};
use crate::Utc;

/// A satellite whose places SGP4 computes (Vallado, Crawford, Hujsak, Kelso: "Revisiting Spacetrack Report #3", AIAA 2006-6753),
/// with the constants of WGS72, for which two-line elements are made.
#[derive(Clone, Debug)]
pub struct Satellite {
    constants: sgp4::Constants,
    epoch: Utc,
    bounds: Bounds,
}

/// Bounds of a satellite's movement, which the search for those in view relies on.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How fast its direction from the centre of the Earth moves over the turning Earth.
    pub sweep_rad_s: f64,
    /// Its distance from the centre of the Earth.
    pub highest_km: f64,
    /// Its distance from the equator as seen from the centre of the Earth.
    pub northernmost_rad: f64,
}

impl Satellite {
    /// A satellite of these elements; `None`: they describe no orbit that SGP4 knows.
    pub fn new(elements: &Elements) -> Option<Self> {
        let orbit = sgp4::Orbit::from_kozai_elements(
            &sgp4::WGS72,
            elements.inclination_deg.to_radians(),
            elements.raan_deg.to_radians(),
            elements.eccentricity,
            elements.perigee_deg.to_radians(),
            elements.anomaly_deg.to_radians(),
            elements.revolutions_per_day * TURN / 1440.0,
        )
        .ok()?;
        let mean_motion = orbit.mean_motion / 60.0;
        let (days, ns) = elements.epoch.days_since_j2000();
        let years = (days as f64 + ns as f64 / 86_400e9) / 365.25;
        let constants =
            sgp4::Constants::new(sgp4::WGS72, sgp4::iau_epoch_to_sidereal_time, years, elements.bstar, orbit).ok()?;
        let e = elements.eccentricity;
        // Kepler's second law at perigee: n sqrt(1 - e^2) / (1 - e)^2; two percent for perturbations and decay.
        let fastest = mean_motion * libm::sqrt(1.0 - e * e) / ((1.0 - e) * (1.0 - e));
        let inclination = elements.inclination_deg.to_radians();
        Some(Self {
            constants,
            epoch: elements.epoch,
            bounds: Bounds {
                sweep_rad_s: 1.02 * fastest + EARTH_RATE,
                highest_km: semi_major_axis_km(elements.revolutions_per_day) * (1.0 + e) + PERTURBATION_KM,
                northernmost_rad: inclination.min(std::f64::consts::PI - inclination) + 0.002,
            },
        })
    }

    /// Its place at an instant in the frame TEME, km; `None`: by then it has decayed, or SGP4 has no place for it.
    pub fn position(&self, t: Utc) -> Option<[f64; 3]> {
        let minutes = t.seconds_since(self.epoch) / 60.0;
        let place: Vector = self.constants.propagate(sgp4::MinutesSinceEpoch(minutes)).ok()?.position;
        let radius = norm(place);
        // Far from their epoch, elements with much drag give places below the ground or far outside.
        (EQUATOR_KM + DECAYED_KM..self.bounds.highest_km).contains(&radius).then_some(place)
    }

    /// Returns the bounds of its movement.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// How far from right below it a station may be and have it at an elevation or higher, as an angle at the centre of the Earth:
    /// acos(R cos(el) / r) - el, and a little more for the ellipsoid, on which up is not away from the centre.
    pub(crate) fn reach(&self, station_radius: f64, elevation: f64) -> f64 {
        let share = (station_radius * libm::cos(elevation) / self.bounds.highest_km).min(1.0);
        libm::acos(share) - elevation + DEFLECTION
    }
}

/// Kepler's third law: a = (mu / n^2)^(1/3), with mu of WGS72, km.
pub(crate) fn semi_major_axis_km(revolutions_per_day: f64) -> f64 {
    let n = revolutions_per_day * TURN / 86_400.0;
    libm::cbrt(MU / (n * n))
}

/// The inverse of [`semi_major_axis_km`].
pub(crate) fn revolutions_per_day(semi_major_axis_km: f64) -> f64 {
    libm::sqrt(MU / semi_major_axis_km) / semi_major_axis_km * 86_400.0 / TURN
}

const TURN: f64 = 2.0 * std::f64::consts::PI;
/// Gravity of the Earth in WGS72, km^3/s^2.
const MU: f64 = 398_600.8;
/// More than periodic perturbations add to the distance of a low orbit, km.
const PERTURBATION_KM: f64 = 40.0;
/// Below this height, a satellite has decayed, km.
pub(crate) const DECAYED_KM: f64 = 120.0;
/// More than the angle between geodetic and geocentric latitude, rad.
const DEFLECTION: f64 = 0.004;
