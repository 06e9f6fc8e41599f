//! Profiles, recordings and authors' algorithms by the name a study has for them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use perigee_cc::Algorithm;
use perigee_cc_load::Loader;
use perigee_study::{Outside, Place, Unusable};

/// More than any profile or recording has; a study that names a device or a disk image is told so.
const MOST_BYTES: u64 = 1 << 30;

/// What is outside of a study on this machine.
pub(crate) struct Disk<'a> {
    /// Folders in which profiles and recordings are looked for.
    pub(crate) search: &'a [PathBuf],
    /// The study's own folder.
    pub(crate) folder: &'a Path,
    pub(crate) loader: Loader,
}

impl Outside for Disk<'_> {
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String> {
        load(name, self.search)
    }

    fn algorithm(&mut self, path: &str, place: Place) -> Result<&'static Algorithm, Unusable> {
        let at = match place {
            Place::Study => self.folder.join(path),
            Place::Setting => PathBuf::from(path),
        };
        // Without the `.` in `study/./mycc.c`, which the compiler would repeat in every line.
        let at: PathBuf = at.components().collect();
        self.loader.load(&at, path).map_err(|error| {
            let text = error.to_string();
            let (message, fix) = text.split_once("; ").unwrap_or((&text, "correct it"));
            Unusable { message: message.to_owned(), fix: fix.to_owned() }
        })
    }
}

/// Looks a file up in the folders given, then from the working directory, and reads it.
pub(crate) fn load(name: &str, search: &[PathBuf]) -> Result<Vec<u8>, String> {
    let found = search.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let path = found.unwrap_or_else(|| PathBuf::from(name));
    if !path.is_file() {
        let folders: Vec<_> = search.iter().map(|folder| folder.display().to_string()).collect();
        return Err(format!("there is no such file, neither here nor in {}", folders.join(", ")));
    }
    let file = File::open(&path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("it is larger than {} MiB", MOST_BYTES >> 20));
    }
    Ok(bytes)
}
