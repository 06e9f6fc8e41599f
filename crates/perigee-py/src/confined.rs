//! The process in which authors' algorithms run: its limits, its note, its trials.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use perigee_cc::{Algorithm, ProgressNote};
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
}

/// Gives this process its limits, for good: so many bytes of address space; it is killed when the thread that started it,
/// of the process `parent`, ends. `note` is the shared memory.
#[pyfunction]
pub(crate) fn confine(memory: u64, parent: u32, note: i32) -> PyResult<Note> {
    // SAFETY: Python holds the descriptor during the call.
    let note = unsafe { BorrowedFd::borrow_raw(note) };
    Ok(Note(perigee_cc_load::confine(memory, parent, note)?))
}

/// Bytes of the shared memory of a note.
#[pyfunction]
pub(crate) fn note_bytes() -> usize {
    ProgressNote::BYTES
}

/// What a note says: a number that rises while there is progress, the share that is done, the callback that has not returned,
/// the number of its flow, the flow's clock in s, the random sequence, and the event's place in it.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "what Python unpacks")]
pub(crate) fn noted(note: &[u8]) -> Option<(u64, f64, Option<&'static str>, u32, f64, u32, Option<u32>)> {
    let noted = ProgressNote::read(note)?;
    let callback = noted.callback.map(perigee_cc::Callback::as_str);
    Some((noted.beats, noted.share, callback, noted.flow, noted.time_ns as f64 * 1e-9, noted.sequence, noted.event))
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

    /// Tries so many random sequences of events: `None`, or the sequence and the event that break a window, and how.
    fn sequences(&self, count: u32) -> Option<(u32, usize, String)> {
        trial(self.0, count).err().map(|broken| (broken.sequence, broken.event, broken.wrong))
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

/// What Python passes on to another process.
pub(crate) fn libraries(compiled: Vec<Compiled>) -> Vec<Library> {
    compiled.into_iter().map(|Compiled { path, source, library }| (path, source, library)).collect()
}

/// What [`libraries`] made.
pub(crate) fn compiled(libraries: Vec<Library>) -> Vec<Compiled> {
    libraries.into_iter().map(|(path, source, library)| Compiled { path, source, library }).collect()
}
