//! Authors' algorithms: what they are called without a call of them, and the process in which they run.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use perigee_cc::trial::{attempt, trial, Sequence};
use perigee_cc::{Algorithm, Underway};
use perigee_cc_load::{Compiled, ForKernel, Loader};
use perigee_study::{Run, Traffic};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde_json::json;

use crate::files::go_on;
use crate::{described, StudyError};

/// A file as another process has compiled it: its path, its text, and the library.
pub(crate) type Library = (PathBuf, Vec<u8>, Vec<u8>);

/// The note that this process shares with the one that started it.
#[pyclass(frozen)]
pub(crate) struct Note(pub(crate) &'static Underway);

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
    Underway::BYTES
}

/// What a note says: a number that rises while there is progress, the share that is done, the callback that has not returned,
/// the number of its flow, the flow's clock in s, the random sequence, and the event's place in it.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "what Python unpacks")]
pub(crate) fn noted(note: &[u8]) -> Option<(u64, f64, Option<&'static str>, u32, f64, u32, Option<u32>)> {
    let noted = Underway::read(note)?;
    let callback = noted.callback.map(perigee_cc::Callback::as_str);
    Some((noted.beats, noted.share, callback, noted.flow, noted.time_ns as f64 * 1e-9, noted.sequence, noted.event))
}

/// An author's algorithm in a process that was made to try it.
#[pyclass(frozen)]
pub(crate) struct Trial(&'static Algorithm);

#[pymethods]
impl Trial {
    #[new]
    fn new(library: Library, note: &Note) -> PyResult<Self> {
        let path = library.0.clone();
        let mut loader = Loader::confined(compiled(vec![library]), note.0);
        match loader.load(&path, &path.display().to_string(), &mut || true) {
            Ok(algorithm) => Ok(Self(algorithm)),
            Err(error) => Err(StudyError::new_err(error.to_string())),
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

/// The congestion control of an author's file, as those of `algorithms`, and what the compiler warned of; `headers` is
/// the folder of `tcp.h`. Nothing of the file is executed.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "paths from Python arrive as owned ones")]
pub(crate) fn algorithm_of(path: PathBuf, headers: PathBuf) -> PyResult<(String, String)> {
    let mut loader = Loader::new(headers);
    let (shown, mut raised) = (path.display().to_string(), None);
    match loader.load(&path, &shown, &mut || go_on(&mut raised)) {
        Ok(algorithm) => Ok((described(algorithm).to_string(), loader.warnings().to_owned())),
        Err(error) => Err(raised.unwrap_or_else(|| StudyError::new_err(format!("{shown}: {error}")))),
    }
}

/// Compiles an author's file for the simulator and the kernel: as JSON what `algorithm_of` says of it, `warnings`,
/// `kernel_error` (none where it compiles for the kernel), and `kernel_unknown` (why that could not be tried); and what
/// `Trial` takes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "paths from Python arrive as owned ones")]
pub(crate) fn check_of(py: Python<'_>, path: PathBuf, headers: PathBuf) -> PyResult<(String, Library)> {
    let mut raised = None;
    let checked = py.detach(|| perigee_cc_load::check(&path, &headers, &mut || go_on(&mut raised)));
    if let Some(error) = raised {
        return Err(error);
    }
    let checked = checked.map_err(|error| StudyError::new_err(format!("{}: {error}", path.display())))?;
    let (error, unknown) = match &checked.kernel {
        ForKernel::Compiles => (None, None),
        ForKernel::Fails(said) => (Some(said), None),
        ForKernel::Unknown(why) => (None, Some(why)),
    };
    let mut found = described(checked.algorithm);
    found["warnings"] = json!(checked.warnings);
    found["kernel_error"] = json!(error);
    found["kernel_unknown"] = json!(unknown);
    let libraries = libraries(checked.compiled);
    let library = libraries.into_iter().next().ok_or_else(|| PyRuntimeError::new_err("nothing was compiled"))?;
    Ok((found.to_string(), library))
}

/// What Python passes on to another process.
pub(crate) fn libraries(compiled: Vec<Compiled>) -> Vec<Library> {
    compiled.into_iter().map(|Compiled { path, source, library }| (path, source, library)).collect()
}

/// What [`libraries`] made.
pub(crate) fn compiled(libraries: Vec<Library>) -> Vec<Compiled> {
    libraries.into_iter().map(|(path, source, library)| Compiled { path, source, library }).collect()
}

/// The number and the name of each flow with an author's algorithm, and the algorithm's file.
pub(crate) fn own_flows(run: &Run) -> Vec<(u32, String, PathBuf)> {
    let flows = (0..).zip(&run.scenario.flows).filter_map(|(number, flow)| match &flow.traffic {
        Traffic::Tcp { tcp, .. } => {
            tcp.cc.algorithm().file().map(|file| (number, flow.name.to_string(), file.path.clone()))
        }
        _ => None,
    });
    flows.collect()
}

/// The same run with the flows' numbers in their choices, so that calls of authors' code are noted with them.
pub(crate) fn numbered(run: &Run) -> Run {
    let mut scenario = (*run.scenario).clone();
    for (number, flow) in (0..).zip(&mut scenario.flows) {
        if let Traffic::Tcp { tcp, .. } = &mut flow.traffic {
            tcp.cc = tcp.cc.clone().of_flow(number);
        }
    }
    Run { scenario: scenario.into(), ..run.clone() }
}
