//! The process in which authors' algorithms run: its limits, its note, its trials.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use perigee_cc::{Algorithm, ProgressNote, Selected};
use perigee_cc_load::trial::{attempt, trial, Sequence};
use perigee_cc_load::{Compiled, Loader};
use pyo3::prelude::*;

use crate::errors::InputError;

/// A file as another process has compiled it: its path, its text, and the library.
pub(crate) type Library = (PathBuf, Vec<u8>, Vec<u8>);

/// The note that this process shares with the one that started it.
#[pyclass(frozen, module = "perigee._core")]
pub(crate) struct Note(pub(crate) &'static ProgressNote);

#[pymethods]
impl Note {
    /// Says that there is progress: the share of the run that is done.
    fn beat(&self, share: f64) {
        self.0.beat(share);
    }

    /// Says that a run begins, whose calls are counted from 0.
    fn begin(&self) {
        self.0.begin();
    }
}

/// Confines this process permanently: `memory` limits its address space, bytes; it is killed when the thread of the process
/// `parent` that started it ends. `note` is the shared memory.
#[pyfunction]
pub(crate) fn confine(memory: u64, parent: u32, note: i32) -> PyResult<Note> {
    // SAFETY: Python holds the descriptor during the call.
    let note = unsafe { BorrowedFd::borrow_raw(note) };
    Ok(Note(perigee_cc_load::confine(memory, parent, note)?))
}

/// Confines this process for good, which executes a program of others next: it reads and executes what is in `reads` beside the
/// system's files, and writes `writes`. It is killed when the thread of the process `parent` that started it ends.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "lists from Python arrive as owned vectors")]
pub(crate) fn confine_program(parent: u32, reads: Vec<PathBuf>, writes: Vec<PathBuf>) -> PyResult<()> {
    perigee_cc_load::die_with(parent)?;
    Ok(perigee_cc_load::confine_program(&reads, &writes)?)
}

/// Bytes of the shared memory of a note.
#[pyfunction]
pub(crate) fn note_bytes() -> usize {
    ProgressNote::BYTES
}

/// The content of a note.
///
/// `beats` rises while there is progress; `share` of the run is done; `callback` has not returned, of the flow of that number, whose
/// clock was at `time_s`, and is the `calls`-th of the run or of the sequence; `sequence` is the random one, `event` its place in
/// it. `fault` is where a fault was met: the library by its place, and addresses within it.
#[pyclass(frozen, get_all, module = "perigee._core")]
pub(crate) struct Noted {
    beats: u64,
    share: f64,
    callback: Option<&'static str>,
    flow: u32,
    time_s: f64,
    calls: u64,
    sequence: u32,
    event: Option<u32>,
    fault: Option<(u32, Vec<u64>)>,
}

/// Returns the content of a note; `None`: it was cut short.
#[pyfunction]
pub(crate) fn noted(note: &[u8]) -> Option<Noted> {
    let noted = ProgressNote::read(note)?;
    Some(Noted {
        beats: noted.beats,
        share: noted.share,
        callback: noted.callback.map(perigee_cc::Callback::as_str),
        flow: noted.flow,
        time_s: noted.time_ns as f64 * 1e-9,
        calls: noted.calls,
        sequence: noted.sequence,
        event: noted.event,
        fault: noted.fault.map(|fault| (fault.library, fault.frames[..fault.depth as usize].to_vec())),
    })
}

/// The lines of an address within a library: file, line and function, of inlined functions those of their calls too.
#[pyfunction]
pub(crate) fn lines_of(library: &[u8], address: u64) -> Vec<(PathBuf, u32, String)> {
    let lines = perigee_cc_load::lines_of(library, address);
    lines.into_iter().map(|line| (line.file, line.number, line.function)).collect()
}

/// The signal that asks a process of [`confine`] where it is; it is to be ended afterwards.
#[pyfunction]
pub(crate) fn where_signal() -> i32 {
    perigee_cc_load::WHERE
}

/// An author's algorithm in a process that was made to try it.
#[pyclass(frozen, module = "perigee._core")]
pub(crate) struct Trial(&'static Algorithm);

#[pymethods]
impl Trial {
    #[new]
    fn new(library: Library, note: &Note) -> PyResult<Self> {
        let path = library.0.clone();
        let mut loader = Loader::confined(compiled(vec![library]), note.0);
        match loader.load(&path, &path.display().to_string(), &mut || true) {
            Ok(algorithm) => Ok(Self(algorithm)),
            Err(error) => Err(InputError::new_err((error.message(), error.fix()))),
        }
    }

    /// Has the module that it may be begin with these parameters, as text; the others have their defaults.
    #[allow(clippy::needless_pass_by_value, reason = "lists from Python arrive as owned vectors")]
    fn begin(&self, settings: Vec<(String, String)>) -> PyResult<()> {
        let settings: Vec<_> = settings.iter().map(|(key, value)| (&**key, &**value)).collect();
        let begun = Selected::of(self.0, &settings).and_then(|selected| selected.begin());
        begun.map_err(|error| InputError::new_err((error.message(), error.fix())))
    }

    /// Tries `count` random sequences of events, from number `first` on: `None`, or the sequence and the event that break a window,
    /// and how.
    fn sequences(&self, first: u32, count: u32) -> Option<(u32, usize, String)> {
        trial(self.0, first..first.saturating_add(count))
            .err()
            .map(|broken| (broken.sequence, broken.event, broken.wrong))
    }

    /// Tries the events of these places of a sequence: `None`, or which of them breaks a window, and how.
    #[allow(clippy::needless_pass_by_value, reason = "lists from Python arrive as owned vectors")]
    fn attempt(&self, sequence: u32, places: Vec<usize>) -> Option<(usize, String)> {
        attempt(self.0, sequence, &places).err().map(|broken| (broken.event, broken.wrong))
    }
}

/// The round trip of a random sequence's handshake in us, and its events in words.
#[pyfunction]
pub(crate) fn trial_events(sequence: u32) -> (u32, Vec<String>) {
    let sequence = Sequence::of(sequence);
    (sequence.rtt_us, sequence.ops.iter().map(|op| format!("{op:?}")).collect())
}

/// Returns libraries as Python passes them on to another process.
pub(crate) fn libraries(compiled: Vec<Compiled>) -> Vec<Library> {
    compiled.into_iter().map(|Compiled { path, source, library }| (path, source, library)).collect()
}

/// Returns the algorithms compiled into [`libraries`].
pub(crate) fn compiled(libraries: Vec<Library>) -> Vec<Compiled> {
    libraries.into_iter().map(|(path, source, library)| Compiled { path, source, library }).collect()
}
