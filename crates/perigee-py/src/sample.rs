//! Links over time, without traffic.

use std::path::PathBuf;

use perigee_link::{LinkSpec, Sample};
use perigee_units::{Rate, Time};
use pyo3::prelude::*;

use crate::emulate::link;
use crate::errors::study_error;

/// The rates (Mbit/s) and the delays (ms; `None`: lost) of one direction.
type Direction = (Vec<f64>, Vec<Option<f64>>);

/// A profile's `down` and `up` over time, idle but for one small packet per sample; see `perigee_link::sample`.
///
/// `profile` is its text and its file, recordings are looked for in the folders of `search`; a sample is taken at the
/// beginning and every `every_ns` after it, `count` in all.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "called by Python, with owned values")]
pub(crate) fn sample_profile(
    py: Python<'_>,
    profile: (String, String),
    settings: Vec<(String, String)>,
    search: Vec<PathBuf>,
    seed: u64,
    every_ns: u64,
    count: usize,
) -> PyResult<(Direction, Direction)> {
    let profile = link(&profile, &profile, &settings, &search).map_err(study_error)?;
    let every = Time::from_nanos(every_ns);
    let of = |spec: &LinkSpec, name| direction(&perigee_link::sample(spec, seed, name, every, count));
    Ok(py.detach(|| (of(&profile.down, "down"), of(&profile.up, "up"))))
}

fn direction(samples: &[Sample]) -> Direction {
    let mbps = |rate: Rate| if rate == Rate::UNLIMITED { f64::INFINITY } else { rate.as_mbps() };
    let rates = samples.iter().map(|sample| mbps(sample.rate)).collect();
    let delays = samples.iter().map(|sample| sample.delay.map(Time::as_millis_f64)).collect();
    (rates, delays)
}
