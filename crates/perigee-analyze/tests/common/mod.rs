//! Captures that the simulator writes, and files that are gone when a test is.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use perigee_analyze::{analyze, Analysis, AnalyzeError, Options, Source};
use perigee_sim::RunResult;
use perigee_study::{Overrides, Study};

/// A folder of a test's own.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("perigee-analyze-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder takes a folder");
        Self(path)
    }

    /// Writes a file.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("the temporary folder takes a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Carries out a study: sender `a`, router `r`, receiver `b`, all of which capture; the bottleneck is from `r` to `b`.
pub(crate) fn simulated(bottleneck: &str, rest: &str) -> RunResult {
    let text = format!(
        r#"
        name = "test"
        nodes = ["a", "r", "b"]
        [[links]]
        name = "access"
        between = ["a", "r"]
        rate = "1 Gbit/s"
        delay = "1 ms"
        [[links]]
        name = "bottleneck"
        between = ["r", "b"]
        {bottleneck}
        [measure]
        pcap = true
        {rest}
        "#
    );
    let study = Study::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut no_files = |name: &str| Err(format!("a test has no file {name}"));
    let runs = study.plan(&Overrides::default(), &mut no_files).unwrap_or_else(|error| panic!("{error}\n{text}"));
    perigee_sim::run(&runs[0], &mut |_| ControlFlow::Continue(())).expect("the run is possible")
}

/// The capture of a node.
pub(crate) fn capture<'a>(result: &'a RunResult, node: &str) -> &'a [u8] {
    &result.captures.iter().find(|capture| &*capture.node == node).expect("every node captures").pcapng
}

/// Analyses files, each a capture.
pub(crate) fn of_files(files: &[&Path]) -> Result<Vec<Analysis>, AnalyzeError> {
    let source = |path: &&Path| Source {
        name: path.file_name().expect("a file").to_string_lossy().into(),
        parts: vec![path.to_path_buf()],
    };
    let sources: Vec<_> = files.iter().map(source).collect();
    analyze(&sources, "test", &Options::default(), &mut |_| ControlFlow::Continue(()))
}

/// Analyses a capture that is in memory.
pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Analysis, AnalyzeError> {
    let folder = Folder::new();
    let file = folder.file("capture", bytes);
    of_files(&[&file]).map(|mut all| all.remove(0))
}
