//! Congestion controls: those that are built in, and those of authors' files.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use perigee_cc_load::{BuildError, ForKernel, LoadError, Loader};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::confined::{libraries, Library};
use crate::errors::InputError;
use crate::files::go_on;

/// Returns a suggestion in place of a name: the one of `known` that was probably meant, or all of them.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "values from Python arrive owned")]
pub(crate) fn suggestion(word: &str, known: Vec<String>) -> String {
    perigee_units::suggestion(word, known.iter().map(String::as_str))
}

/// A parameter of a congestion control; values are text with their unit.
#[pyclass(frozen, get_all, module = "perigee._core")]
#[derive(Clone)]
pub(crate) struct Parameter {
    name: String,
    unit: String,
    default: String,
    min: String,
    max: String,
    doc: String,
}

/// A system whose TCP a host can have; `settings` are the name, the value in words and the source of each, empty at the setting's default.
#[pyclass(frozen, get_all, module = "perigee._core")]
pub(crate) struct HostSystem {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    held: &'static str,
    settings: Vec<(&'static str, String, &'static str)>,
}

/// The systems that `hosts.like` knows.
#[pyfunction]
pub(crate) fn host_systems() -> Vec<HostSystem> {
    let systems = perigee_settings::SYSTEMS.iter().map(|system| HostSystem {
        name: system.name,
        title: system.title,
        about: system.about,
        held: system.held,
        settings: perigee_study::system_settings(system),
    });
    systems.collect()
}

/// A congestion control: its name and title, the bytes it keeps in a socket's private area and beyond, its
/// parameters, name, unit and meaning of the values that it lets be watched, and whether it needs ECN.
#[pyclass(frozen, get_all, module = "perigee._core")]
#[derive(Clone)]
pub(crate) struct Algorithm {
    name: String,
    title: String,
    state_bytes: u32,
    storage_bytes: u32,
    params: Vec<Parameter>,
    watched: Vec<(String, String, String)>,
    needs_ecn: bool,
}

impl From<&'static perigee_cc::Algorithm> for Algorithm {
    fn from(algorithm: &'static perigee_cc::Algorithm) -> Self {
        let params = algorithm.params().iter().map(|param| Parameter {
            name: param.name.to_owned(),
            unit: param.unit.to_owned(),
            default: param.text(param.default),
            min: param.text(param.min),
            max: param.text(param.max),
            doc: param.doc.to_owned(),
        });
        let watched = algorithm.watched().iter();
        let watched = watched.map(|value| (value.name.to_owned(), value.unit.to_owned(), value.doc.to_owned()));
        Self {
            name: algorithm.name().to_owned(),
            title: algorithm.title().to_owned(),
            state_bytes: algorithm.state_bytes(),
            storage_bytes: algorithm.storage_bytes(),
            params: params.collect(),
            watched: watched.collect(),
            needs_ecn: algorithm.needs_ecn(),
        }
    }
}

/// Results of the compilers for an author's file.
///
/// `kernel_error` is `None` where it compiles for the kernel, `kernel_unknown` where that could be tried. `library` is
/// what `Trial` takes.
#[pyclass(frozen, get_all, module = "perigee._core")]
pub(crate) struct Check {
    algorithm: Algorithm,
    warnings: String,
    kernel_error: Option<String>,
    kernel_unknown: Option<String>,
    library: Library,
}

/// The congestion controls that are built in, by name.
#[pyfunction]
pub(crate) fn algorithms() -> Vec<Algorithm> {
    perigee_cc::algorithms().iter().map(Algorithm::from).collect()
}

/// The congestion control of an author's file, and the compiler's warnings; `headers` is the folder of `tcp.h`. Nothing of
/// the file is executed.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "paths from Python arrive as owned ones")]
pub(crate) fn algorithm_of(path: PathBuf, headers: PathBuf) -> PyResult<(Algorithm, String)> {
    let mut loader = Loader::new(headers);
    let (shown, mut raised) = (path.display().to_string(), None);
    match loader.load(&path, &shown, &mut || go_on(&mut raised)) {
        Ok(algorithm) => Ok((algorithm.into(), loader.warnings().to_owned())),
        Err(error) => {
            Err(raised.unwrap_or_else(|| InputError::new_err((format!("{shown}: {}", error.message()), error.fix()))))
        }
    }
}

/// Compiles an author's file for the simulator and the kernel; nothing of it is executed.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "paths from Python arrive as owned ones")]
pub(crate) fn check_of(py: Python<'_>, path: PathBuf, headers: PathBuf) -> PyResult<Check> {
    let mut raised = None;
    let checked = py.detach(|| perigee_cc_load::check(&path, &headers, &mut || go_on(&mut raised)));
    if let Some(error) = raised {
        return Err(error);
    }
    let checked = checked
        .map_err(|error| InputError::new_err((format!("{}: {}", path.display(), error.message()), error.fix())))?;
    let (kernel_error, kernel_unknown) = match checked.kernel {
        ForKernel::Compiles => (None, None),
        ForKernel::Fails(said) => (Some(said), None),
        ForKernel::Unknown(why) => (None, Some(why)),
    };
    let library = libraries(checked.compiled).into_iter().next();
    Ok(Check {
        algorithm: checked.algorithm.into(),
        warnings: checked.warnings,
        kernel_error,
        kernel_unknown,
        library: library.ok_or_else(|| PyRuntimeError::new_err("nothing was compiled"))?,
    })
}

/// Compiles a text that may be a stranger's for browsers, confined and within `longest_s`: the module, or `None` and what the
/// compiler said; that is empty where it took too much.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "paths from Python arrive as owned ones")]
pub(crate) fn browser_module(
    py: Python<'_>,
    source: PathBuf,
    headers: PathBuf,
    longest_s: f64,
) -> PyResult<(Option<Cow<'static, [u8]>>, String)> {
    let longest = Duration::try_from_secs_f64(longest_s).unwrap_or_default();
    match py.detach(|| perigee_cc_load::browser_module(&source, &headers, longest)) {
        Ok(module) => Ok((Some(module.into()), String::new())),
        Err(LoadError::Compile(said)) => Ok((None, said)),
        Err(LoadError::Compiler(BuildError::TooLong { .. })) => Ok((None, String::new())),
        Err(error) => Err(InputError::new_err((error.message(), error.fix()))),
    }
}

/// Whether the kernel keeps compilers to the files that they are given.
#[pyfunction]
pub(crate) fn compilers_are_confined() -> bool {
    perigee_cc_load::compilers_are_confined()
}
