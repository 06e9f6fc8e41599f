//! The fuzz corpus, replayed without a fuzzer: no `resolv.conf` and no message breaks the name server behind a link.

use std::path::Path;

#[path = "../../../fuzz/src/names.rs"]
mod names;

#[test]
fn no_name_file_or_message_of_the_corpus_breaks_its_reader() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/names");
    let entries = std::fs::read_dir(folder).expect("the corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 7, "only {} inputs", paths.len());
    for path in paths {
        println!("{}", path.display());
        names::names(&std::fs::read(path).expect("an input"));
    }
}
