//! The exceptions of `perigee.errors`, raised from here: what went wrong, and what to do where the error knows it apart.

use std::fmt::Display;

use perigee_study::StudyError;
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(perigee.errors, InputError);
import_exception!(perigee.errors, RootNeededError);
import_exception!(perigee.errors, RunError);
import_exception!(perigee.errors, FaultError);
import_exception!(perigee.errors, KernelError);
import_exception!(perigee.errors, InUseError);

/// The input is wrong: exit code 2.
pub(crate) fn input_error(error: &dyn Display) -> PyErr {
    InputError::new_err(error.to_string())
}

/// The input is wrong, or only root may do it: exit code 2.
pub(crate) fn input_or_root_error(error: &dyn Display, needs_root: bool) -> PyErr {
    if needs_root {
        RootNeededError::new_err(error.to_string())
    } else {
        input_error(error)
    }
}

/// The input was right, and it failed all the same: exit code 1.
pub(crate) fn run_error(error: &dyn Display) -> PyErr {
    RunError::new_err(error.to_string())
}

/// A run broke a law of the simulator; `given` is its study: exit code 1.
pub(crate) fn fault_error(error: &dyn Display, given: &str) -> PyErr {
    FaultError::new_err(format!("{error}\n{given}"))
}

/// A study, a profile or a setting is wrong, with the place and the fix; further errors of a file have a line each.
#[allow(clippy::needless_pass_by_value, reason = "a function that maps errors takes them")]
pub(crate) fn study_error(error: StudyError) -> PyErr {
    let more = error.more.iter().fold(String::new(), |told, one| told + &format!("\n{one}"));
    InputError::new_err((format!("{}: {}", error.origin, error.message), error.fix + &more))
}

/// A study as it was given: its file, its settings, its text.
pub(crate) fn given(text: &str, path: &str, settings: &[String], reduced: bool) -> String {
    let options = settings.iter().map(|setting| format!(" --set '{setting}'"));
    let options: String = options.chain(reduced.then(|| " --reduced".to_owned())).collect();
    format!("---- {path}{options}\n{}\n----", text.trim_end())
}
