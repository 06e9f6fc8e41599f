//! A Python function that is asked while Rust works, without the interpreter's lock.

use std::ops::ControlFlow;

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

use perigee_results::Standing;

/// A function of Python's, and what it raised.
pub(crate) struct Callback {
    function: Py<PyAny>,
    raised: Option<PyErr>,
}

impl Callback {
    pub(crate) fn new(function: Py<PyAny>) -> Self {
        Self { function, raised: None }
    }

    /// Calls it; whether it says to go on. Where it raises, that is kept and the work ends.
    pub(crate) fn ask(&mut self, arguments: impl for<'py> PyCallArgs<'py>) -> bool {
        let answer = Python::attach(|py| self.function.bind(py).call1(arguments)?.is_truthy());
        answer.unwrap_or_else(|error| {
            self.raised = Some(error);
            false
        })
    }

    /// As [`Callback::ask`], for work that reports its share.
    pub(crate) fn progress(&mut self, share: f64) -> ControlFlow<()> {
        go_on(self.ask((share,)))
    }

    /// As [`Callback::ask`], for a run that reports how far it is.
    pub(crate) fn standing(&mut self, standing: &Standing) -> ControlFlow<()> {
        go_on(self.ask((standing.share, standing.now.as_secs_f64(), &*standing.received)))
    }

    /// Calls it for its effect only.
    pub(crate) fn tell(&mut self, arguments: impl for<'py> PyCallArgs<'py>) {
        let told = Python::attach(|py| self.function.bind(py).call1(arguments).map(drop));
        self.raised = self.raised.take().or(told.err());
    }

    /// Whether nothing was raised.
    pub(crate) fn is_well(&self) -> bool {
        self.raised.is_none()
    }

    /// Returns the exception raised, as the caller's error.
    pub(crate) fn finish(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
}

fn go_on(answer: bool) -> ControlFlow<()> {
    if answer {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}
