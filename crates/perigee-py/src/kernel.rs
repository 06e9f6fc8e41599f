//! Congestion controls in the running kernel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use perigee_bpf::{load, status, unload, InUse, LoadError, Options, Program, StatusError, UnloadError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::{input_error, input_or_root_error, InUseError, KernelError};
use crate::json;

/// A congestion control as it was loaded, see `perigee_bpf::Loaded`.
#[pyclass(frozen, get_all, module = "perigee._core")]
pub(crate) struct Loaded {
    name: String,
    algorithm: String,
    parameters: String,
    replaced: bool,
    sockets_on_earlier: usize,
    default_before: Option<String>,
    warnings: String,
}

/// A congestion control as it was unloaded, see `perigee_bpf::Unloaded`.
#[pyclass(frozen, get_all, module = "perigee._core")]
pub(crate) struct Unloaded {
    name: String,
    default: Option<String>,
    namespaces: Vec<(String, String)>,
    sockets_left: usize,
}

/// Loads a built-in algorithm, or an author's file where `is_file`.
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
) -> PyResult<Loaded> {
    let settings: Vec<_> = settings.iter().map(|(key, value)| (&**key, &**value)).collect();
    py.detach(|| {
        let program = if is_file {
            Program::file(Path::new(what), &settings, &headers)
        } else {
            Program::built_in(what, &settings)
        };
        let program = program.map_err(|error| input_error(&error))?;
        let loaded = load(&program, Options { name, make_default }).map_err(load_error)?;
        let perigee_bpf::Loaded { name, algorithm, parameters, replaced, sockets_on_earlier, default_before } = loaded;
        let warnings = program.warnings().to_owned();
        Ok(Loaded { name, algorithm, parameters, replaced, sockets_on_earlier, default_before, warnings })
    })
}

/// Unloads what was loaded under a name. If sockets use it, `force` leaves them with it, `wait_s` waits up to that time for
/// their end.
#[pyfunction]
#[pyo3(signature = (name, wait_s, force))]
pub(crate) fn cc_unload(py: Python<'_>, name: &str, wait_s: Option<f64>, force: bool) -> PyResult<Unloaded> {
    let in_use = match wait_s.map(Duration::try_from_secs_f64) {
        _ if force => InUse::Leave,
        None => InUse::Refuse,
        Some(longest) => InUse::Wait(longest.map_err(|error| input_error(&error))?),
    };
    let unloaded = py.detach(|| unload(name, in_use)).map_err(|error| match error {
        UnloadError::InUse { .. } => InUseError::new_err(error.to_string()),
        _ if error.is_wrong_input() => input_or_root_error(&error, error.needs_root()),
        _ => KernelError::new_err(error.to_string()),
    });
    let perigee_bpf::Unloaded { name, default, namespaces, sockets_left } = unloaded?;
    Ok(Unloaded { name, default, namespaces, sockets_left })
}

/// What is loaded and who uses it, see `perigee_bpf::Status`.
#[pyfunction]
pub(crate) fn cc_status(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let found = py.detach(status).map_err(|error| match error {
        StatusError::Missing(missing) => input_or_root_error(&missing, missing.needs_root()),
        StatusError::System(error) => KernelError::new_err(error.to_string()),
    });
    let text = serde_json::to_string(&found?).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    json::values(py, &text)
}

#[allow(clippy::needless_pass_by_value, reason = "a function that maps errors takes them")]
fn load_error(error: LoadError) -> PyErr {
    if error.is_wrong_input() {
        input_or_root_error(&error, error.needs_root())
    } else {
        KernelError::new_err((error.to_string(), error.log().map(str::to_owned)))
    }
}
