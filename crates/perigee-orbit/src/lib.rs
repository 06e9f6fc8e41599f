//! The path over a constellation of low orbits, from its elements: which satellite and gateway, and how long light takes.
//!
//! [`read_elements`] reads two-line elements and orbit mean-elements messages, [`Shell`] generates Walker patterns. A [`Path`] chooses
//! a satellite per slot and gives the delay within it as a polynomial. Positions are those of SGP4 in the frame TEME, turned to
//! the Earth by the mean sidereal time of 1982; places are geodetic, on the ellipsoid of WGS84.
//!
//! Units: kilometres, radians unless a name says degrees, nanoseconds; instants are [`Utc`].

mod candidates;
mod curve;
mod elements;
mod files;
mod frames;
mod mesh;
mod path;
mod records;
mod satellite;
mod scheduler;
mod utc;
mod walker;

pub use elements::{Elements, ElementsError, GridPlace};
pub use files::read_elements;
pub use frames::{gmst_rad, Place};
pub use path::{Gateway, Path, PathError, PathSpec, Route, Sight};
pub use satellite::{Bounds, Satellite};
pub use scheduler::Weights;
pub use utc::Utc;
pub use walker::{Constellation, Pattern, Shell};
