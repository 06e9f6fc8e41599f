//! The process that carries a flow over QUIC of an emulated run, whose congestion control is an author's file.

use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};

use perigee_cc::Selected;
use perigee_cc_load::{load_described, Compiled};
use perigee_study::Run;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::confined::Note;
use crate::errors::{input_error, run_error};
use crate::tables::{contents, named, streams, to_python};

/// Takes this process's rights, for good, when it has read its plan, and gives it the priority of a flow's thread. See `confine`.
#[pyfunction]
pub(crate) fn confine_carrier(memory: u64, parent: u32, note: i32) -> PyResult<Note> {
    perigee_emu::hurry();
    // SAFETY: Python holds the descriptor during the call.
    let note = unsafe { BorrowedFd::borrow_raw(note) };
    Ok(Note(perigee_cc_load::confine_nobody(memory, perigee_emu::MOST_SOCKETS, parent, note)?))
}

/// A flow of a run, its algorithm loaded into this process.
#[pyclass(frozen, module = "perigee._core")]
pub(crate) struct OwnFlow {
    run: Run,
    number: u32,
    note: Py<Note>,
}

impl OwnFlow {
    /// The flow of this number in a run whose algorithms were described from these files.
    pub(crate) fn new(run: &Run, number: u32, files: &[Compiled], note: Py<Note>) -> PyResult<Self> {
        let missing = || run_error(&format!("flow {number} is none of an author's file over QUIC"));
        let flow = run.scenario.flows.get(number as usize).and_then(|flow| flow.traffic.quic()).ok_or_else(missing)?;
        let described = flow.cc.algorithm();
        let place = described.file().and_then(|file| files.iter().position(|one| one.path == file.path));
        let place = place.ok_or_else(missing)?;
        let loaded = load_described(described, place, note.get().0).map_err(|error| input_error(&error))?;
        let run = run.with_controls(|other, cc| {
            if other == number {
                Selected::with_values(loaded, cc.values()).of_flow(number)
            } else {
                cc.clone()
            }
        });
        Ok(Self { run, number, note })
    }
}

#[pymethods]
impl OwnFlow {
    /// Carries the flow for the run at the other end of the channel, which is taken over. Returns tables and logs as `Plan.run` does.
    fn carry<'py>(&self, py: Python<'py>, channel: i32) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        // SAFETY: the caller gives it away.
        let channel = unsafe { OwnedFd::from_raw_fd(channel) };
        let note = self.note.get().0;
        note.begin();
        let carried = py.detach(|| {
            let (tables, logs) =
                perigee_emu::carry_apart(&self.run, self.number, channel, &mut |share| note.beat(share))?;
            Ok((streams(&tables), named(logs)))
        });
        let (tables, logs) = carried.map_err(|error: perigee_emu::RunError| run_error(&error))?;
        Ok((to_python(py, tables)?, contents(py, logs)?))
    }
}
