//! Congestion controls in the running kernel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use perigee_bpf::{
    forget, load, memory, remember, sockets, status, unload, InUse, LoadError, Options, Prefix, PrefixError, Program,
    Remember, StatusError, UnloadError, Whose,
};
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

/// Loads an author's file, which is compiled with these headers, or a built-in algorithm where there are none. `remember`:
/// paths, by prefixes of these lengths of IPv4 and IPv6.
#[pyfunction]
#[pyo3(signature = (what, settings, name, make_default, remember, headers))]
#[allow(clippy::too_many_arguments, reason = "the options of one command")]
#[allow(clippy::needless_pass_by_value, reason = "values from Python arrive owned")]
pub(crate) fn cc_load(
    py: Python<'_>,
    what: &str,
    settings: Vec<(String, String)>,
    name: Option<&str>,
    make_default: bool,
    remember: Option<(u8, u8)>,
    headers: Option<PathBuf>,
) -> PyResult<Loaded> {
    let settings: Vec<_> = settings.iter().map(|(key, value)| (&**key, &**value)).collect();
    py.detach(|| {
        let program = match headers {
            Some(headers) => Program::file(Path::new(what), &settings, &headers),
            None => Program::built_in(what, &settings),
        };
        let program = program.map_err(|error| input_error(&error))?;
        let remember = remember.map(|(v4, v6)| Remember { v4, v6 });
        let loaded = load(&program, Options { name, make_default, remember }).map_err(load_error)?;
        Ok(Loaded {
            name: loaded.name,
            algorithm: loaded.algorithm,
            parameters: loaded.parameters,
            replaced: loaded.replaced,
            sockets_on_earlier: loaded.sockets_on_earlier,
            default_before: loaded.default_before,
            warnings: program.warnings().to_owned(),
        })
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

/// Returns the loaded algorithms and their users, see `perigee_bpf::Status`.
#[pyfunction]
pub(crate) fn cc_status(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let found = py.detach(status).map_err(status_error)?;
    as_values(py, serde_json::to_string(&found))
}

/// Connections and their state: of all algorithms, or of those that were loaded; see `perigee_bpf::Sockets`.
#[pyfunction]
#[pyo3(signature = (everything))]
pub(crate) fn cc_sockets(py: Python<'_>, everything: bool) -> PyResult<Bound<'_, PyAny>> {
    let whose = if everything { Whose::All } else { Whose::Loaded };
    let found = py.detach(|| sockets(whose)).map_err(status_error)?;
    as_values(py, serde_json::to_string(&found))
}

/// Returns the paths that loaded algorithms remember, see `perigee_bpf::Remembered`.
#[pyfunction]
pub(crate) fn cc_memory(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let found = py.detach(memory).map_err(status_error)?;
    as_values(py, serde_json::to_string(&found))
}

/// Forgets what the algorithm of a name remembers, or what all do, of networks within a prefix; returns it.
#[pyfunction]
#[pyo3(signature = (name, to))]
pub(crate) fn cc_forget<'py>(py: Python<'py>, name: Option<&str>, to: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let to = to.map(prefix).transpose()?;
    let found = py.detach(|| forget(name, to)).map_err(status_error)?;
    as_values(py, serde_json::to_string(&found))
}

/// Writes what a connection to the networks of a prefix would have saved.
#[pyfunction]
#[pyo3(signature = (name, to, window_packets, rtt_us))]
pub(crate) fn cc_remember(py: Python<'_>, name: &str, to: &str, window_packets: u32, rtt_us: u32) -> PyResult<()> {
    let to = prefix(to)?;
    py.detach(|| remember(name, to, window_packets, rtt_us)).map_err(status_error)
}

fn prefix(text: &str) -> PyResult<Prefix> {
    text.parse().map_err(|error: PrefixError| input_error(&error))
}

fn as_values(py: Python<'_>, text: serde_json::Result<String>) -> PyResult<Bound<'_, PyAny>> {
    json::values(py, &text.map_err(|error| PyRuntimeError::new_err(error.to_string()))?)
}

#[allow(clippy::needless_pass_by_value, reason = "a function that maps errors takes them")]
fn status_error(error: StatusError) -> PyErr {
    match &error {
        StatusError::Missing(missing) => input_or_root_error(missing, missing.needs_root()),
        StatusError::Unfit(_) => input_or_root_error(&error, false),
        StatusError::System(error) => KernelError::new_err(error.to_string()),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "a function that maps errors takes them")]
fn load_error(error: LoadError) -> PyErr {
    if error.is_wrong_input() {
        input_or_root_error(&error, error.needs_root())
    } else {
        KernelError::new_err((error.to_string(), error.log().map(str::to_owned)))
    }
}
