//! Orbital elements.

use std::fmt;

use perigee_units::encode_struct;

use crate::Utc;

/// Mean elements of an orbit, as SGP4 takes them.
#[derive(Clone, Debug, PartialEq)]
pub struct Elements {
    /// Name of the satellite.
    pub name: String,
    /// Year and number of its launch, as 2024 and 67 in 2024067; `None`: not known.
    pub launched: Option<u32>,
    /// The instant that the elements are of.
    pub epoch: Utc,
    /// Inclination, degrees.
    pub inclination_deg: f64,
    /// Right ascension of the ascending node, degrees.
    pub raan_deg: f64,
    /// Eccentricity.
    pub eccentricity: f64,
    /// Argument of perigee, degrees.
    pub perigee_deg: f64,
    /// Mean anomaly, degrees.
    pub anomaly_deg: f64,
    /// Mean motion after Kozai, revolutions per day.
    pub revolutions_per_day: f64,
    /// Drag term, per Earth radius.
    pub bstar: f64,
    /// Its place in a generated constellation.
    pub grid: Option<GridPlace>,
}

/// The place of a satellite in the pattern of its shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridPlace {
    /// Which shell.
    pub shell: u32,
    /// Which plane of it.
    pub plane: u32,
    /// Which satellite of the plane.
    pub number: u32,
}

encode_struct!(GridPlace { shell, plane, number });
encode_struct!(Elements {
    name,
    launched,
    epoch,
    inclination_deg,
    raan_deg,
    eccentricity,
    perigee_deg,
    anomaly_deg,
    revolutions_per_day,
    bstar,
    grid
});

/// An error of a file of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementsError {
    /// Its line, from 1.
    pub line: u32,
    /// The error, with the value.
    pub message: String,
    /// The fix.
    pub fix: String,
}

impl fmt::Display for ElementsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}; {}", self.line, self.message, self.fix)
    }
}

impl ElementsError {
    pub(crate) fn new(line: u32, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { line, message: message.into(), fix: fix.into() }
    }
}
