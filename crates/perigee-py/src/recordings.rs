//! Recorded links in the formats of replay tools.

use std::path::PathBuf;

use perigee_link::LinkSpec;
use perigee_study::formats::{Format, RecordedLink, Written};
use perigee_units::{suggestion, Time};
use pyo3::prelude::*;

use crate::emulate::link;
use crate::errors::{input_error, study_error};

/// Names and texts of files, and sentences about what they leave out.
type Texts = (Vec<(String, String)>, Vec<String>);

fn named(format: &str) -> PyResult<Format> {
    Format::named(format).ok_or_else(|| {
        let known = Format::ALL.iter().map(|format| format.as_str());
        input_error(&format!("there is no format `{format}`; {}", suggestion(format, known)))
    })
}

/// The names of the formats, each with what its files are.
#[pyfunction]
pub(crate) fn trace_formats() -> Vec<(&'static str, Vec<&'static str>)> {
    Format::ALL.into_iter().map(|format| (format.as_str(), format.takes().to_vec())).collect()
}

/// The files of a recorded direction in another format; `files` are names and bytes, as many as the format has.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "called by Python, with owned values")]
pub(crate) fn convert_traces(
    py: Python<'_>,
    source: &str,
    files: Vec<(String, Vec<u8>)>,
    target: &str,
) -> PyResult<Texts> {
    let (source, target) = (named(source)?, named(target)?);
    py.detach(|| {
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        let mut notes = Vec::new();
        let recorded = source.read(&files, &mut notes).map_err(study_error)?;
        let written = target.write(&recorded).map_err(|why| input_error(&why))?;
        notes.extend(written.notes);
        Ok((written.files, notes))
    })
}

/// Both directions of a profile over time as files; parameters as of `sample_profile`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "called by Python, with owned values")]
pub(crate) fn export_traces(
    py: Python<'_>,
    profile: (String, String),
    settings: Vec<(String, String)>,
    search: Vec<PathBuf>,
    seed: u64,
    length_ns: u64,
    target: &str,
) -> PyResult<Texts> {
    let profile = link(&profile, &profile, &settings, &search).map_err(study_error)?;
    let format = named(target)?;
    py.detach(|| {
        let course = |spec: &LinkSpec, name| {
            let recorded = RecordedLink::over_time(spec, seed, name, Time::from_nanos(length_ns));
            recorded.ok_or_else(|| {
                input_error(&format!(
                    "`{name}.rate` is a TDMA channel, whose rate follows requests: no trace has it; choose another profile"
                ))
            })
        };
        let written = format.write_both(&course(&profile.down, "down")?, &course(&profile.up, "up")?);
        let Written { files, notes } = written.map_err(|why| input_error(&why))?;
        Ok((files, notes))
    })
}
