//! Lists what the module carries with it: profiles, recordings and shipped studies.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a build reads the files that it embeds")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Kinds of files that a study or a profile may name.
const RECORDINGS: [&str; 2] = ["csv", "tle"];

/// The files of a folder and of those in it, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn is_embedded(path: &Path, folder: &str) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
    let is_study = || fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line.starts_with("nodes = ")));
    RECORDINGS.contains(&kind) || kind == "toml" && (folder == "profiles" || is_study())
}

fn main() {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let mut out = String::from("pub(crate) const FILES: &[(&str, &str)] = &[\n");
    for folder in ["profiles", "studies"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
        for path in files(&root.join(folder)).iter().filter(|path| is_embedded(path, folder)) {
            let name = path.strip_prefix(&root).expect("it is in the folder").display().to_string();
            let _ = writeln!(out, "    ({name:?}, include_str!({:?})),", path.display().to_string());
        }
    }
    out.push_str("];\n");
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(target.join("files.rs"), out).expect("OUT_DIR is writable");
    println!("cargo:rerun-if-changed=build.rs");
}
