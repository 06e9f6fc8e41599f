//! The fuzz corpus, replayed without a fuzzer: no sequence of datagrams makes a server or a client panic, or a server send
//! more bytes than it has received.

#![allow(clippy::unwrap_used, reason = "a corpus that cannot be read fails the test")]

use std::path::Path;

#[path = "../../../fuzz/src/probe.rs"]
mod probe;

#[test]
fn no_sequence_of_the_corpus_breaks_server_or_client() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/probe");
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    assert!(entries.len() >= 8, "only {} inputs", entries.len());
    for path in entries {
        println!("{}", path.display());
        probe::probe(&std::fs::read(path).unwrap());
    }
}
