//! The files and algorithms that studies may name: those that the module carries with it, and those that the page added.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use perigee_cc::{find, Algorithm, File};
use perigee_study::{Outside, Place, Unusable};
use perigee_units::fnv1a;

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The files and algorithms that studies may name.
#[derive(Default)]
pub(crate) struct Shelf {
    files: BTreeMap<String, Vec<u8>>,
    /// The algorithms, by the name of the C file.
    algorithms: BTreeMap<String, &'static Algorithm>,
}

/// The shelf as a study sees it.
pub(crate) struct OfStudy<'a> {
    shelf: &'a Shelf,
    /// The folder of the study, with a slash at the end; empty: none.
    folder: String,
}

impl Shelf {
    /// Adds a profile or recording, in the place of one of that name.
    pub(crate) fn add_file(&mut self, name: &str, bytes: Vec<u8>) {
        self.files.insert(name.to_owned(), bytes);
    }

    /// Adds an author's algorithm under the name of its C file, in the place of one of that name. It lives as long as the module.
    pub(crate) fn add_algorithm(&mut self, file: &str, algorithm: Algorithm, module: Vec<u8>) -> &'static Algorithm {
        let name = algorithm.name();
        let others = self.algorithms.iter().filter(|(other, _)| *other != file);
        let is_taken = find(name).is_some() || others.map(|(_, other)| other.name()).any(|other| other == name);
        let name = if is_taken { format!("{name} ({file})") } else { name.to_owned() };
        let digest = fnv1a(module.iter().copied());
        let about = File {
            path: PathBuf::from(file),
            headers: PathBuf::new(),
            source: Vec::new(),
            library: module,
            kernel: OnceLock::new(),
        };
        let algorithm: &'static Algorithm = Box::leak(Box::new(algorithm.from_file(name, digest, about)));
        self.algorithms.insert(file.to_owned(), algorithm);
        algorithm
    }

    /// The authors' algorithms, by the names of their files.
    pub(crate) fn own(&self) -> impl Iterator<Item = (&String, &'static Algorithm)> {
        self.algorithms.iter().map(|(file, algorithm)| (file, *algorithm))
    }

    /// The shelf as a study of this file sees it.
    pub(crate) fn of_study(&self, file: &str) -> OfStudy<'_> {
        let folder = file.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        OfStudy { shelf: self, folder }
    }

    fn find(&self, name: &str) -> Option<&[u8]> {
        let embedded = || FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_bytes());
        self.files.get(name).map(Vec::as_slice).or_else(embedded)
    }

    /// The names in a folder, each once.
    fn listing(&self, folder: &str) -> String {
        let names = self.files.keys().map(String::as_str).chain(FILES.iter().map(|(name, _)| *name));
        let mut names: Vec<&str> = names.filter_map(|name| name.strip_prefix(folder)).collect();
        names.sort_unstable();
        names.dedup();
        names.join("\n")
    }
}

impl Outside for OfStudy<'_> {
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String> {
        if name.ends_with('/') {
            return Ok(self.shelf.listing(name).into_bytes());
        }
        let beside = format!("studies/{}{name}", self.folder);
        let found = self.shelf.find(&beside).or_else(|| self.shelf.find(name));
        found.map(<[u8]>::to_vec).ok_or_else(|| "there is no such file here; add it".to_owned())
    }

    fn algorithm(&mut self, path: &str, _place: Place) -> Result<&'static Algorithm, Unusable> {
        let file = path.rsplit('/').next().unwrap_or(path);
        self.shelf.algorithms.get(file).copied().ok_or_else(|| Unusable {
            message: "is a C file, which a browser does not compile".to_owned(),
            fix: format!("compile it to a module and add that as `{file}`"),
        })
    }
}
