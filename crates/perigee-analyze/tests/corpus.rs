//! The fuzz corpus, replayed without a fuzzer: no input makes the reader panic, hang, or give a useless error.

#![allow(clippy::unwrap_used, reason = "a corpus that cannot be read fails the test")]

use std::path::Path;

#[path = "../../../fuzz/src/capture.rs"]
mod capture;

#[test]
fn no_capture_of_the_corpus_breaks_its_reader() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/capture");
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    assert!(entries.len() >= 8, "only {} inputs", entries.len());
    for path in entries {
        println!("{}", path.display());
        capture::capture(&std::fs::read(path).unwrap());
    }
}
