//! Congestion controls in the running kernel, as JSON.

use std::path::{Path, PathBuf};
use std::time::Duration;

use perigee_bpf::{load, status, unload, InUse, LoadError, Options, Program, StatusError, UnloadError};
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;

create_exception!(_core, CcInputError, PyValueError, "What was asked for is wrong, or cannot be done on this machine.");
create_exception!(
    _core,
    KernelError,
    PyRuntimeError,
    "The kernel did not do it. Arguments: the message; all that it said, or None."
);
create_exception!(_core, CcInUseError, KernelError, "Sockets use the congestion control.");

/// Loads a built-in algorithm, or an author's file where `is_file`. JSON of `perigee_bpf::Loaded`, and what the compiler
/// warned of.
#[pyfunction]
#[pyo3(signature = (what, is_file, settings, name, make_default, headers))]
#[allow(clippy::needless_pass_by_value, reason = "values from Python arrive owned")]
pub(crate) fn cc_load(
    py: Python<'_>,
    what: &str,
    is_file: bool,
    settings: Vec<(String, String)>,
    name: Option<&str>,
    make_default: bool,
    headers: PathBuf,
) -> PyResult<(String, String)> {
    let settings: Vec<_> = settings.iter().map(|(key, value)| (&**key, &**value)).collect();
    py.detach(|| {
        let program = if is_file {
            Program::file(Path::new(what), &settings, &headers)
        } else {
            Program::built_in(what, &settings)
        };
        let program = program.map_err(|error| CcInputError::new_err(error.to_string()))?;
        let loaded = load(&program, Options { name, make_default }).map_err(load_error)?;
        Ok((json(&loaded)?, program.warnings().to_owned()))
    })
}

/// Unloads what was loaded under a name. Where sockets use it: `force` leaves them with it, `wait_s` waits so long for
/// their end. JSON of `perigee_bpf::Unloaded`.
#[pyfunction]
#[pyo3(signature = (name, wait_s, force))]
pub(crate) fn cc_unload(py: Python<'_>, name: &str, wait_s: Option<f64>, force: bool) -> PyResult<String> {
    let in_use = match wait_s.map(Duration::try_from_secs_f64) {
        _ if force => InUse::Leave,
        None => InUse::Refuse,
        Some(longest) => InUse::Wait(longest.map_err(|error| CcInputError::new_err(error.to_string()))?),
    };
    let unloaded = py.detach(|| unload(name, in_use)).map_err(|error| match error {
        UnloadError::InUse { .. } => CcInUseError::new_err((error.to_string(), None::<String>)),
        _ if error.is_wrong_input() => CcInputError::new_err(error.to_string()),
        _ => KernelError::new_err((error.to_string(), None::<String>)),
    });
    json(&unloaded?)
}

/// What is loaded and who uses it: JSON of `perigee_bpf::Status`.
#[pyfunction]
pub(crate) fn cc_status(py: Python<'_>) -> PyResult<String> {
    let found = py.detach(status).map_err(|error| match error {
        StatusError::Missing(missing) => CcInputError::new_err(missing.to_string()),
        StatusError::System(error) => KernelError::new_err((error.to_string(), None::<String>)),
    });
    json(&found?)
}

#[allow(clippy::needless_pass_by_value, reason = "a function that maps errors takes them")]
fn load_error(error: LoadError) -> PyErr {
    let message = error.to_string();
    if error.is_wrong_input() {
        CcInputError::new_err(message)
    } else {
        KernelError::new_err((message, error.log().map(str::to_owned)))
    }
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
