//! The path of a link over satellites, slot by slot.

use std::path::PathBuf;
use std::sync::Arc;

use perigee_link::{DelaySpec, OrbitDelay};
use perigee_orbit::{Path, Route, Satellite, Utc};
use perigee_units::Time;
use pyo3::prelude::*;

use crate::emulate::link;
use crate::errors::{input_error, study_error};

/// A satellite in the sky: its name, elevation (degrees), azimuth (degrees from north to east) and distance (km).
type Sight = (String, f64, f64, f64);

/// The parts that a profile's delay is computed from in one direction, and its slots.
#[pyclass(frozen, get_all)]
pub(crate) struct Orbit {
    /// Latitude and longitude of the user, degrees.
    user: (f64, f64),
    /// Name, latitude and longitude of each gateway.
    gateways: Vec<(String, f64, f64)>,
    /// How many satellites there are.
    satellites: usize,
    /// Least elevation at the user, degrees.
    elevation_deg: f64,
    /// Reasons to doubt it.
    warnings: Vec<String>,
    /// The slots, in order.
    slots: Vec<Py<OrbitSlot>>,
}

/// A slot: who is in view as it begins, who serves, and the delay.
#[pyclass(frozen, get_all)]
pub(crate) struct OrbitSlot {
    /// When it begins, UTC.
    begin: String,
    /// From the instant that was asked for until it begins, s; the first one may have begun before.
    t_s: f64,
    /// Its length, s.
    length_s: f64,
    /// All that are above the least elevation as it begins, the highest first.
    visible: Vec<Sight>,
    /// The satellites of the path, from the user on; none where there is no path.
    path: Vec<String>,
    /// Where the path comes down.
    gateway: Option<String>,
    /// The first satellite of the path as the slot begins.
    first: Option<Sight>,
    /// The delay one way as it begins, in its middle and as it ends, ms, without jitter and spikes.
    delay_ms: Option<(f64, f64, f64)>,
    /// The part of it that light takes as it begins, ms.
    light_ms: Option<f64>,
}

/// The slots of a profile's direction `down` or `up` from a time of the day on, as many as have begun before `span_ns` is over.
///
/// `profile` is its text and its file, files of elements are looked for in the folders of `search`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "called by Python, with owned values")]
pub(crate) fn orbit_slots(
    py: Python<'_>,
    profile: (String, String),
    settings: Vec<(String, String)>,
    search: Vec<PathBuf>,
    direction: &str,
    time_of_day_ns: u64,
    span_ns: u64,
) -> PyResult<Orbit> {
    let file = profile.1.clone();
    let profile = link(&profile, &profile, &settings, &search).map_err(study_error)?;
    let spec = if direction == "up" { profile.up } else { profile.down };
    let DelaySpec::Orbit(delay) = spec.delay else {
        let fix = "name a profile whose delay is `kind = \"orbit\"`, such as starlink-orbit";
        return Err(input_error(&format!("{file}: `{direction}.delay` is not computed from orbits; {fix}")));
    };
    let from = delay.path.spec().date + Time::from_nanos(time_of_day_ns);
    let path = delay.path.clone();
    let slots = py.detach(|| {
        let last = path.slot_at(from.plus_nanos(span_ns.saturating_sub(1) as i64));
        (path.slot_at(from)..=last).map(|slot| slot_of(&delay, slot, from)).collect::<Vec<_>>()
    });
    let spec = path.spec();
    Ok(Orbit {
        user: (spec.user.lat_deg, spec.user.lon_deg),
        gateways: spec.gateways.iter().map(|one| (one.name.clone(), one.place.lat_deg, one.place.lon_deg)).collect(),
        satellites: path.constellation().satellites.len(),
        elevation_deg: spec.elevation_deg,
        warnings: path.warnings(),
        slots: slots.into_iter().map(|slot| Py::new(py, slot)).collect::<PyResult<_>>()?,
    })
}

fn slot_of(delay: &OrbitDelay, slot: i64, from: Utc) -> OrbitSlot {
    let path: &Path = &delay.path;
    let satellites = &path.constellation().satellites;
    let sight = |sight: perigee_orbit::Sight| {
        let name = satellites[sight.satellite as usize].name.clone();
        (name, sight.elevation_deg, sight.azimuth_deg, sight.range_km)
    };
    let period = path.spec().period;
    let begin = path.begin(slot);
    let route: Option<Arc<Route>> = path.route(slot);
    let after = |route: &Route, half_periods: u64| {
        (route.delay(Time::from_nanos(period.as_nanos() * half_periods / 2)) + delay.extra).as_millis_f64()
    };
    OrbitSlot {
        begin: begin.to_string(),
        t_s: begin.seconds_since(from),
        length_s: period.as_secs_f64(),
        visible: path.sights(slot).into_iter().map(sight).collect(),
        path: route.iter().flat_map(|route| &route.satellites).map(|i| satellites[*i as usize].name.clone()).collect(),
        gateway: route.as_ref().map(|route| path.spec().gateways[route.gateway as usize].name.clone()),
        first: route.as_ref().and_then(|route| path.sight(route.satellites[0], begin)).map(sight),
        delay_ms: route.as_ref().map(|route| (after(route, 0), after(route, 1), after(route, 2))),
        light_ms: route.as_ref().map(|route| route.delay(Time::ZERO).as_millis_f64()),
    }
}

/// Satellites of a file of elements as SGP4 and the geometry of paths have them at instants: for each satellite, its name and for
/// each instant its place in TEME (km) and, from a place on the ground (degrees, degrees, m), its elevation, azimuth and distance.
///
/// `instants` are ns since 1970; a place is missing where the satellite has decayed by then.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "called by Python, with owned values")]
#[allow(clippy::type_complexity, reason = "numbers for a table of Python's")]
pub(crate) fn orbit_places(
    elements: &[u8],
    place: (f64, f64, f64),
    instants: Vec<i64>,
) -> PyResult<Vec<(String, Vec<Option<([f64; 3], f64, f64, f64)>>)>> {
    let read = perigee_orbit::read_elements(elements).map_err(|error| input_error(&error.to_string()))?;
    let place = perigee_orbit::Place { lat_deg: place.0, lon_deg: place.1, alt_m: place.2 };
    let of = |elements: perigee_orbit::Elements| {
        let satellite = Satellite::new(&elements);
        let at = |ns: &i64| {
            let t = Utc::default().plus_nanos(*ns);
            let position = satellite.as_ref()?.position(t)?;
            let (elevation_deg, azimuth_deg, range_km) = place.look(t, position);
            Some((position, elevation_deg, azimuth_deg, range_km))
        };
        (elements.name, instants.iter().map(at).collect())
    };
    Ok(read.satellites.into_iter().map(of).collect())
}
