//! Profiles, recordings and authors' algorithms by the name a study has for them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use perigee_cc::Algorithm;
use perigee_cc_load::{LoadError, Loader};
use perigee_study::{Outside, Place, Unusable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

const NAMES_A_FILE: &str = "names a file, which only the command line may";
/// More than any recording has: an hour of 100 Mbit/s, a line for each packet, is some 230 MB.
const MOST_BYTES_OF_RECORDING: u64 = 256 << 20;
/// More than any profile has.
const MOST_BYTES_OF_PROFILE: u64 = 16 << 20;

/// Somebody else's part of a study, which may name only what comes with Perigee. Where only the settings are, the study names
/// algorithms of its own folder besides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreign {
    Nothing,
    Settings,
    Whole,
}

impl Foreign {
    /// The word of Python for it.
    pub(crate) fn of(word: &str) -> PyResult<Self> {
        match word {
            "" => Ok(Self::Nothing),
            "settings" => Ok(Self::Settings),
            "study" => Ok(Self::Whole),
            _ => Err(PyValueError::new_err(format!("foreign: `settings`, `study` or nothing, not `{word}`"))),
        }
    }
}

/// The files around a study on this machine.
pub(crate) struct Disk<'a> {
    pub(crate) foreign: Foreign,
    /// Folders in which profiles and recordings are looked for.
    pub(crate) search: &'a [PathBuf],
    /// The study's own folder.
    pub(crate) folder: &'a Path,
    pub(crate) loader: Loader,
    /// The exception that Python raised while a compiler ran.
    pub(crate) raised: Option<PyErr>,
}

impl Outside for Disk<'_> {
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String> {
        if self.foreign == Foreign::Nothing {
            return load(name, self.search);
        }
        if !self.is_of_perigee(name) {
            return Err(format!("{NAMES_A_FILE}; give a profile by name"));
        }
        // Where files are is not for others.
        load(name, self.search).map_err(|_| "there is none of that name".to_owned())
    }

    fn algorithm(&mut self, path: &str, place: Place) -> Result<&'static Algorithm, Unusable> {
        let is_allowed = match self.foreign {
            Foreign::Nothing => true,
            Foreign::Settings => place == Place::Study && is_below_the_study(path),
            Foreign::Whole => false,
        };
        if !is_allowed {
            let fix = "give an algorithm by name".to_owned();
            return Err(Unusable { message: NAMES_A_FILE.to_owned(), fix });
        }
        let at = match place {
            Place::Study => self.folder.join(path),
            Place::Setting => PathBuf::from(path),
        };
        // Without the `.` in `study/./mycc.c`, which the compiler would repeat in every line.
        let at: PathBuf = at.components().collect();
        let mut go_on = || go_on(&mut self.raised);
        let unusable = |error: LoadError| Unusable { message: error.message(), fix: error.fix() };
        self.loader.load(&at, path, &mut go_on).map_err(unusable)
    }
}

impl Disk<'_> {
    /// Whether a name is that of a profile, of what belongs to one, or of a file beside the study.
    fn is_of_perigee(&self, name: &str) -> bool {
        let path = Path::new(name);
        let is_beside = || path.components().count() == 1 && self.folder.join(path).is_file();
        path.components().all(|part| matches!(part, Component::Normal(_)))
            && (path.starts_with("profiles") || is_beside())
    }
}

/// Whether the path of an algorithm leads to a C file below the folder of its study. The text of the study may have been a
/// stranger's who was given an editor; what is beside it was put there by who owns the folder.
fn is_below_the_study(path: &str) -> bool {
    let path = Path::new(path);
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        && path.extension().is_some_and(|extension| extension == "c")
}

/// Whether a compiler may go on: no signal has come that Python answers with an exception, such as Ctrl-C.
pub(crate) fn go_on(raised: &mut Option<PyErr>) -> bool {
    if raised.is_none() {
        *raised = Python::attach(|py| {
            py.check_signals()?;
            Ok(())
        })
        .err();
    }
    raised.is_none()
}

/// Looks a file up in the folders given, then from the working directory, and reads it; of a folder (`profiles/`) the
/// names of the files in all that are found, a line each.
pub(crate) fn load(name: &str, search: &[PathBuf]) -> Result<Vec<u8>, String> {
    if name.ends_with('/') {
        return Ok(listing(name, search).into_bytes());
    }
    let found = search.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let path = found.unwrap_or_else(|| PathBuf::from(name));
    if !path.is_file() {
        let folders: Vec<_> = search.iter().map(|folder| folder.display().to_string()).collect();
        return Err(format!("there is no such file, neither here nor in {}", folders.join(", ")));
    }
    let is_profile = path.extension().is_some_and(|extension| extension == "toml");
    let most = if is_profile { MOST_BYTES_OF_PROFILE } else { MOST_BYTES_OF_RECORDING };
    read_bounded(&path, most).map_err(|error| error.to_string())
}

fn listing(folder: &str, search: &[PathBuf]) -> String {
    let folders = search.iter().map(|root| root.join(folder)).chain([PathBuf::from(folder)]);
    let files = folders.filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>().join("\n")
}

/// Reads a file of at most `most` bytes. A file whose size is larger is not read at all, and one without a valid size, such as
/// those of `/proc`, no further than that.
fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let (says, mut bytes) = (file.metadata()?.len(), Vec::new());
    if says <= most {
        file.take(most + 1).read_to_end(&mut bytes)?;
    }
    if says.max(bytes.len() as u64) > most {
        return Err(io::Error::other(format!("it is larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}
