//! Programs to load: an algorithm with parameters, compiled for the kernel.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::{fs, io};

use perigee_cc::{CcError, File, Selected};
use perigee_cc_build::BuildError;
use perigee_cc_load::Loader;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// An algorithm with parameters, as a BPF object.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) selected: Selected,
    pub(crate) object: Cow<'static, [u8]>,
    pub(crate) origin: String,
    pub(crate) source_sha256: String,
    warnings: String,
}

/// Why there is no program.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// Unknown algorithm, parameter or value.
    #[error(transparent)]
    Choice(#[from] CcError),
    /// The object of the built-in algorithm was not built.
    #[error("`{algorithm}` was not compiled for the kernel when Perigee was built: {reason}")]
    NotCompiled {
        /// Its name.
        algorithm: String,
        /// The tool or file that its build lacked.
        reason: &'static str,
    },
    /// The file is no algorithm, or its parameters cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: perigee_cc_load::LoadError,
    },
    /// The file has changed.
    #[error("{} has changed since it was read; run it again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file compiles for this machine, but not for the kernel.
    #[error("for the kernel, {0}")]
    Build(#[from] BuildError),
    /// The object cannot be written or read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Program {
    /// A built-in algorithm by name; `settings` as in a study.
    ///
    /// # Errors
    /// If the algorithm, a parameter or a value is unknown, or clang was missing when Perigee was built.
    pub fn built_in(algorithm: &str, settings: &[(&str, &str)]) -> Result<Self, ProgramError> {
        Self::of(Selected::parse(algorithm, settings)?)
    }

    /// An algorithm with selected values. An author's file is compiled for the kernel now, unless it already was.
    ///
    /// # Errors
    /// If the file does not compile for the kernel or, for a built-in algorithm, clang was missing when Perigee was
    /// built.
    pub fn of(selected: Selected) -> Result<Self, ProgramError> {
        if let Some(file) = selected.algorithm().file() {
            return Self::compiled(selected, file);
        }
        let algorithm = selected.algorithm().name();
        let missing = |reason| ProgramError::NotCompiled { algorithm: algorithm.to_owned(), reason };
        let found = OBJECTS.iter().find(|(known, ..)| *known == algorithm);
        let (_, source, object) = *found.ok_or_else(|| missing("there was no such file"))?;
        Ok(Self {
            selected,
            object: Cow::Borrowed(object.map_err(missing)?),
            origin: "built in".to_owned(),
            source_sha256: sha256(source),
            warnings: String::new(),
        })
    }

    /// An author's file, compiled now; `headers` is the folder with `tcp.h`.
    ///
    /// Its parameters are read from its native build, which is not executed.
    ///
    /// # Errors
    /// If the file does not compile for both targets, or lacks a parameter or value.
    pub fn file(path: &Path, settings: &[(&str, &str)], headers: &Path) -> Result<Self, ProgramError> {
        let mut loader = Loader::new(headers.to_owned());
        let shown = path.to_string_lossy();
        let algorithm = loader
            .load(path, &shown, &mut || true)
            .map_err(|error| ProgramError::File { path: path.to_owned(), error })?;
        Self::of(Selected::of(algorithm, settings)?)
    }

    fn compiled(selected: Selected, file: &'static File) -> Result<Self, ProgramError> {
        let wrong = |error| ProgramError::Io { path: file.path.clone(), error };
        if file.kernel.get().is_none() {
            if fs::read(&file.path).map_err(wrong)? != file.source {
                return Err(ProgramError::Changed { path: file.path.clone() });
            }
            let folder = perigee_cc_load::scratch().map_err(wrong)?;
            let object = folder.path().join("algorithm.o");
            let warnings = perigee_cc_build::kernel_object(&file.path, &file.headers, &object)?;
            // A concurrent caller has the same result.
            let _ = file.kernel.set((fs::read(object).map_err(wrong)?, warnings));
        }
        let (object, warnings) = file.kernel.get().ok_or_else(|| wrong(io::ErrorKind::NotFound.into()))?;
        Ok(Self {
            selected,
            object: Cow::Borrowed(object),
            origin: file.path.to_string_lossy().into_owned(),
            source_sha256: sha256(&file.source),
            warnings: warnings.clone(),
        })
    }

    /// The compiler's warnings; empty if there are none.
    pub fn warnings(&self) -> &str {
        &self.warnings
    }
}

/// SHA-256 in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Name, source and compiled object of an algorithm; without the object, the reason.
type EmbeddedObject = (&'static str, &'static [u8], Result<&'static [u8], &'static str>);

static OBJECTS: &[EmbeddedObject] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_of_the_simulator_is_there_for_the_kernel() {
        let known = |name: &str| OBJECTS.iter().any(|(known, ..)| *known == name);
        let missing: Vec<_> =
            perigee_cc::algorithms().iter().map(perigee_cc::Algorithm::name).filter(|name| !known(name)).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn a_hash_is_that_of_the_standard() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_choice_that_is_none_is_told_so() {
        let said = |settings: &[(&str, &str)]| Program::built_in("hybla", settings).unwrap_err().to_string();
        assert!(said(&[("rtt", "25 ms")]).contains("did you mean `rtt0`?"));
        assert!(said(&[("rtt0", "25")]).contains("has no unit"));
        assert!(Program::built_in("hibla", &[]).unwrap_err().to_string().contains("did you mean `hybla`?"));
    }
}
