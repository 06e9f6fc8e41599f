//! What can be said of an author's file before a study or the kernel has it.

use std::path::Path;

use perigee_cc::{trial, Algorithm};
use perigee_cc_build::{kernel_object, BuildError};

use crate::{LoadError, Loader};

/// What came of a check of a file that compiles for the simulator.
#[derive(Debug)]
pub struct Checked {
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// What the compilers warned of; empty where they had nothing to say.
    pub warnings: String,
    /// Whether it compiles for the kernel.
    pub kernel: ForKernel,
    /// What is wrong after which random events, see [`trial::trial`].
    pub trial: Result<(), String>,
}

/// Whether a file compiles for the kernel.
#[derive(Debug, PartialEq, Eq)]
pub enum ForKernel {
    /// It does.
    Compiles,
    /// It does not; what the compiler says.
    Fails(String),
    /// This host cannot tell; why.
    Unknown(String),
}

/// Checks the file at `path`, which includes the `tcp.h` of the folder `headers`: compiled for the simulator and for
/// the kernel, and tried with `sequences` random sequences of events.
///
/// # Errors
/// Where it is no algorithm for the simulator.
pub fn check(path: &Path, headers: &Path, sequences: u32) -> Result<Checked, LoadError> {
    let folder = crate::scratch().map_err(LoadError::Temporary)?;
    let mut loader = Loader::new(headers.to_owned());
    let algorithm = loader.load(path, &path.display().to_string())?;
    let mut warnings = loader.warnings().to_owned();
    let kernel = match kernel_object(path, headers, &folder.path().join("algorithm.o")) {
        Ok(said) => {
            warnings += &said;
            ForKernel::Compiles
        }
        Err(BuildError::Compile { messages, .. }) => ForKernel::Fails(messages.trim_end().to_owned()),
        Err(missing) => ForKernel::Unknown(missing.to_string()),
    };
    Ok(Checked { algorithm, warnings, kernel, trial: trial::trial(algorithm, sequences) })
}
