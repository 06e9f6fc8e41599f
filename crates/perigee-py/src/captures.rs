//! Analyses of captures.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::str::FromStr as _;

use perigee_analyze::{analyze, Analysis, AnalyzeError, Options, Part, Source};
use perigee_study::Startup;
use perigee_units::{Bytes, Ratio, Time};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::tables::columns;
use crate::{to_python, Columns};

create_exception!(_core, CaptureError, PyValueError, "A file is no capture, or an option is wrong.");

/// Analyses captures, each given by its name and its files, as `perigee_analyze::analyze` does; `startup` and `steady` may
/// be `off`. `progress` is called with the share done and says whether to go on; `None` where it did not.
///
/// Otherwise of each capture: its tables by name, and as JSON what was met in its files.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments, reason = "called by Python, with owned values")]
pub(crate) fn analyze_captures(
    py: Python<'_>,
    sources: Vec<(String, Vec<PathBuf>)>,
    study: String,
    series: String,
    startup: String,
    steady: String,
    most: usize,
    progress: Py<PyAny>,
) -> PyResult<Option<Vec<Given<'_>>>> {
    let options = options(&series, &startup, &steady, most)?;
    let source =
        |(name, parts): (String, Vec<PathBuf>)| Source { name, parts: parts.into_iter().map(Part::File).collect() };
    let sources: Vec<_> = sources.into_iter().map(source).collect();
    let mut raised = None;
    let done = py.detach(|| {
        let mut tell = |share: f64| match Python::attach(|py| progress.bind(py).call1((share,))?.is_truthy()) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        };
        let analyses = analyze(&sources, &study, &options, &mut tell)?;
        Ok(analyses.iter().map(|analysis| (laid_out(analysis), about(analysis))).collect::<Vec<_>>())
    });
    if let Some(error) = raised {
        return Err(error);
    }
    let analyses = match done {
        Ok(analyses) => analyses,
        Err(AnalyzeError::Cancelled) => return Ok(None),
        Err(error) => return Err(CaptureError::new_err(error.to_string())),
    };
    let given = analyses.into_iter().map(|(tables, about)| Ok((to_python(py, tables)?, about)));
    given.collect::<PyResult<Vec<_>>>().map(Some)
}

/// The tables of a capture, and what was met in its files.
type Given<'py> = (Bound<'py, PyDict>, String);

/// Name, rows and columns of each table.
fn laid_out(analysis: &Analysis) -> Vec<Columns> {
    let all = analysis.tables.all().into_iter().chain(analysis.captured.all());
    all.map(|table| (table.name(), table.len(), columns(table))).collect()
}

fn about(analysis: &Analysis) -> String {
    let counts = &analysis.counts;
    let broken = counts.broken.iter().map(|(file, broken)| json!([file, broken.offset, broken.why]));
    json!({
        "frames": counts.frames,
        "not_ip": counts.not_ip,
        "other": counts.other,
        "unknown_link": counts.unknown_link,
        "broken": broken.collect::<Vec<_>>(),
        "disordered": counts.disordered,
        "clock_jumps": counts.clock_jumps,
        "first_unix_s": counts.first_ns as f64 / 1e9,
        "length_s": counts.length.as_secs_f64(),
        "connections": analysis.connections,
        "udp": analysis.udp,
        "measured": analysis.measured,
        "other_payload_bytes": analysis.other_payload_bytes,
        "pushed_out": analysis.pushed_out,
        "rows_left_out": analysis.rows_left_out,
    })
    .to_string()
}

fn options(series: &str, startup: &str, steady: &str, most: usize) -> PyResult<Options> {
    let wrong = |option: &str, error: &dyn std::fmt::Display| CaptureError::new_err(format!("--{option}: {error}"));
    let interval = Time::from_str(series).map_err(|error| wrong("series", &error))?;
    if interval < LEAST_INTERVAL {
        return Err(wrong("series", &format_args!("`{series}` is below 1 ms; write \"1 s\"")));
    }
    let startup = match startup {
        "off" => None,
        text => Some(match Bytes::from_str(text) {
            Ok(bytes) => Startup::Bytes(bytes),
            Err(_) => Startup::Time(Time::from_str(text).map_err(|error| wrong("startup", &error))?),
        }),
    };
    let steady = match steady {
        "off" => None,
        text => Some(Ratio::from_str(text).map_err(|error| wrong("steady", &error))?),
    };
    Ok(Options { series: interval, startup, steady, most })
}

const LEAST_INTERVAL: Time = Time::from_millis(1);
