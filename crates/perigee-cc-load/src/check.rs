//! Checks an author's file without executing it.

use std::path::Path;

use perigee_cc::Algorithm;
use perigee_cc_build::{kernel_object, BuildError, GoOn};

use crate::confined::Compiled;
use crate::error::LoadError;
use crate::loader::Loader;
use crate::outside::{messages, outside};
use crate::scratch::scratch;

/// Report on a file that compiles for the simulator.
#[derive(Debug)]
pub struct CheckReport {
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// Warnings of the compilers; empty: none.
    pub warnings: String,
    /// Whether it compiles for the kernel.
    pub kernel: ForKernel,
    /// The compiled files that the process of a trial takes.
    pub compiled: Vec<Compiled>,
}

/// Whether a file compiles for the kernel.
#[derive(Debug, PartialEq, Eq)]
pub enum ForKernel {
    /// It does.
    Compiles,
    /// It does not, or uses what the kernel has not; the messages.
    Fails(String),
    /// This host cannot compile for the kernel; the reason.
    Unknown(String),
}

/// Compiles the file at `path`, which includes the `tcp.h` of the folder `headers`, for the simulator and for the kernel.
///
/// # Errors
/// If it is no algorithm for the simulator, or `go_on` says no.
pub fn check(path: &Path, headers: &Path, go_on: &mut GoOn<'_>) -> Result<CheckReport, LoadError> {
    let folder = scratch().map_err(LoadError::Temporary)?;
    let mut loader = Loader::new(headers.to_owned());
    let algorithm = loader.load(path, &path.display().to_string(), go_on)?;
    let mut warnings = loader.warnings().to_owned();
    let compiled = loader.compiled();
    // The compiler leaves them to the linker, and the kernel refuses the object when it is loaded.
    let refused: String =
        compiled.iter().map(|one| messages(&outside(&one.library), "error", path, &one.source)).collect();
    let kernel = match kernel_object(path, headers, &folder.path().join("algorithm.o")) {
        Ok(said) => {
            warnings += &said;
            if refused.is_empty() {
                ForKernel::Compiles
            } else {
                ForKernel::Fails(refused.trim_end().to_owned())
            }
        }
        Err(BuildError::Compile { messages, .. }) => ForKernel::Fails(messages.trim_end().to_owned()),
        Err(missing) => ForKernel::Unknown(missing.to_string()),
    };
    Ok(CheckReport { algorithm, warnings, kernel, compiled })
}
