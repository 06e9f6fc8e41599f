//! Constellations: satellites of a file, or those of Walker patterns.

use std::fmt;

use perigee_units::{encode_enum, encode_struct, Encode};

use crate::elements::{Elements, GridPlace};
use crate::frames::EQUATOR_KM;
use crate::satellite::revolutions_per_day;
use crate::Utc;

/// Satellites, and the shells that they were generated from.
#[derive(Clone, Debug, PartialEq)]
pub struct Constellation {
    /// All satellites.
    pub satellites: Vec<Elements>,
    /// The shells that they are from; empty where they come from a file.
    pub shells: Vec<Shell>,
    /// Sentences on the file that they come from: what it lacks, and how it was read.
    pub notes: Vec<String>,
}

/// Circular orbits of one height in a Walker pattern (J. G. Walker: "Satellite constellations", JBIS 37, 1984).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shell {
    /// Height above the equator, km.
    pub altitude_km: f64,
    /// Inclination, degrees.
    pub inclination_deg: f64,
    /// Number of planes.
    pub planes: u32,
    /// Satellites per plane.
    pub per_plane: u32,
    /// The phase of a satellite over that in the plane before, in parts of 360 degrees / (planes x satellites per plane).
    pub phasing: f64,
    /// Over which angle the planes are spread.
    pub pattern: Pattern,
    /// Right ascension of the first plane at the epoch, degrees.
    pub raan_deg: f64,
}

/// Over which angle the planes of a shell are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Over all directions.
    Delta,
    /// Over half of them, as polar orbits are: the last plane and the first move against each other.
    Star,
}

encode_enum!(Pattern { Delta, Star });
encode_struct!(Shell { altitude_km, inclination_deg, planes, per_plane, phasing, pattern, raan_deg });

impl Encode for Constellation {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        // How a file was written changes no path.
        let Self { satellites, shells, notes: _ } = self;
        (satellites.as_slice(), shells.as_slice()).encode(out)
    }
}

impl Constellation {
    /// The satellites of shells, whose mean elements are those of an epoch.
    ///
    /// ```
    /// use perigee_orbit::{Constellation, Pattern, Shell, Utc};
    /// let shell = Shell {
    ///     altitude_km: 550.0, inclination_deg: 53.0, planes: 72, per_plane: 22, phasing: 1.0, pattern: Pattern::Delta, raan_deg: 0.0,
    /// };
    /// let constellation = Constellation::of_shells(&[shell], Utc::day("2024-05-01").unwrap());
    /// assert_eq!(constellation.satellites.len(), 1584);
    /// assert_eq!(constellation.satellites[23].name, "S1-P2-2");
    /// ```
    pub fn of_shells(shells: &[Shell], epoch: Utc) -> Self {
        let satellites = shells.iter().enumerate().flat_map(|(i, shell)| {
            let places =
                (0..shell.planes).flat_map(move |plane| (0..shell.per_plane).map(move |number| (plane, number)));
            places.map(move |(plane, number)| shell.satellite(GridPlace { shell: i as u32, plane, number }, epoch))
        });
        Self { satellites: satellites.collect(), shells: shells.to_vec(), notes: Vec::new() }
    }
}

impl Shell {
    fn satellite(&self, place: GridPlace, epoch: Utc) -> Elements {
        let spread = match self.pattern {
            Pattern::Delta => 360.0,
            Pattern::Star => 180.0,
        };
        let (plane, number) = (f64::from(place.plane), f64::from(place.number));
        let (planes, per_plane) = (f64::from(self.planes), f64::from(self.per_plane));
        let anomaly = 360.0 * (number + plane * self.phasing / planes) / per_plane;
        Elements {
            name: format!("S{}-P{}-{}", place.shell + 1, place.plane + 1, place.number + 1),
            launched: None,
            epoch,
            inclination_deg: self.inclination_deg,
            raan_deg: within_turn(self.raan_deg + spread * plane / planes),
            eccentricity: 0.0,
            perigee_deg: 0.0,
            anomaly_deg: within_turn(anomaly),
            revolutions_per_day: revolutions_per_day(EQUATOR_KM + self.altitude_km),
            bstar: 0.0,
            grid: Some(place),
        }
    }
}

fn within_turn(degrees: f64) -> f64 {
    degrees - 360.0 * libm::floor(degrees / 360.0)
}
