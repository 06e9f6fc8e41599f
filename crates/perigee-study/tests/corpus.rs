//! The fuzz corpus, replayed without a fuzzer: no input makes a reader panic, hang, or give an error of no use.

#![allow(clippy::disallowed_methods, reason = "the corpus is files")]
#![allow(clippy::unwrap_used, reason = "a corpus that cannot be read fails the test")]

use std::path::Path;

#[path = "../../../fuzz/src/link.rs"]
mod link;
#[path = "../../../fuzz/src/study.rs"]
mod study;

fn replay(target: &str, least: usize, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    assert!(entries.len() >= least, "only {} inputs", entries.len());
    for path in entries {
        println!("{}", path.display());
        run(&std::fs::read(path).unwrap());
    }
}

#[test]
fn no_study_of_the_corpus_breaks_its_reader() {
    replay("study", 10, study::study);
}

#[test]
fn no_profile_of_the_corpus_breaks_its_reader() {
    replay("profile", 7, link::profile);
}

#[test]
fn no_delivery_trace_of_the_corpus_breaks_its_reader() {
    replay("mahimahi", 7, link::mahimahi);
}

#[test]
fn no_delay_trace_of_the_corpus_breaks_its_reader() {
    replay("delays", 7, link::delays);
}

#[test]
fn no_timeline_of_the_corpus_breaks_its_reader() {
    replay("timeline", 7, link::timeline);
}
