//! What the page asks for.

use std::collections::BTreeMap;

use perigee_cc::Algorithm;
use perigee_results::{ArrowColumn, Table};
use perigee_sim::Captured;
use perigee_study::{Overrides, Run, Study};
use perigee_units::Time;
use serde_json::{json, Value};

use crate::limits::Limits;
use crate::problem::{Kind, Problem, Remark};
use crate::running::{Live, Progress, Running};
use crate::shelf::Shelf;
use crate::{catalogue, describe, ipc, memory};

/// The laboratory of a page: limits, files and algorithms that were added, and the runs that have begun.
#[derive(Default)]
pub struct Engine {
    limits: Limits,
    shelf: Shelf,
    runs: BTreeMap<u32, Running>,
    begun: u32,
    /// The study that was read last.
    read: Option<(Asked, Laid)>,
}

/// A study as the page has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The text.
    pub text: String,
    /// The name of its file, for messages; below `studies/` for recordings beside it.
    pub file: String,
    /// Overrides.
    pub overrides: Overrides,
}

/// A study with its runs.
struct Laid {
    study: Study,
    runs: Vec<Run>,
}

impl Engine {
    /// Version, algorithms, profiles and shipped studies.
    pub fn catalogue(&self) -> Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "algorithms": catalogue::algorithms_json(&self.shelf),
            "profiles": catalogue::profiles_json(),
            "studies": catalogue::studies_json(),
        })
    }

    /// Limits the runs from now on, and those that have begun.
    pub fn set_limits(&mut self, limits: Limits) {
        memory::limit(limits.memory);
        self.limits = limits;
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Adds a recording or a profile.
    pub fn add_file(&mut self, name: &str, bytes: Vec<u8>) {
        self.shelf.add_file(name, bytes);
        self.read = None;
    }

    /// Adds an author's algorithm under the name of its C file; `module` is what it was loaded from.
    pub fn add_algorithm(&mut self, file: &str, algorithm: Algorithm, module: Vec<u8>) -> Value {
        self.read = None;
        catalogue::algorithm_json(self.shelf.add_algorithm(file, algorithm, module), Some(file))
    }

    /// The errors of a study: one at most, since its reader ends with the first.
    pub fn check(&mut self, asked: Asked) -> Vec<Remark> {
        self.lay_out(asked).err().map_or_else(Vec::new, |problem| problem.errors)
    }

    /// The study with its runs, and the network of one of them.
    ///
    /// # Errors
    /// If the study is wrong, or has no such run.
    pub fn describe(&mut self, asked: Asked, run: u32) -> Result<Value, Problem> {
        let is_reducible = catalogue::is_reducible(&asked.text, &asked.file);
        let Laid { study, runs } = self.lay_out(asked)?;
        Ok(describe::describe(study, runs, at(runs, run)?, is_reducible))
    }

    /// Begins a run of a study, and returns its handle.
    ///
    /// # Errors
    /// If the study is wrong, has no such run, or the run cannot begin.
    pub fn start(&mut self, asked: Asked, run: u32) -> Result<u32, Problem> {
        let run = at(&self.lay_out(asked)?.runs, run)?.clone();
        let running = Running::new(run)?;
        self.begun += 1;
        self.runs.insert(self.begun, running);
        Ok(self.begun)
    }

    /// Simulates a run until `until`, or until about `events` more are processed.
    ///
    /// # Errors
    /// If the run exceeds a limit, or is over.
    pub fn advance(&mut self, handle: u32, until: Time, events: Option<u64>) -> Result<Progress, Problem> {
        let limits = self.limits;
        self.running(handle)?.advance(until, events, &limits)
    }

    /// The series of a run so far, after an instant.
    ///
    /// # Errors
    /// If the run is finished.
    pub fn live(&mut self, handle: u32, after: Time) -> Result<Live, Problem> {
        self.running(handle)?.live(after)
    }

    /// Simulates what is left of a run; the names of its tables with rows, and their numbers of rows.
    ///
    /// # Errors
    /// If the run exceeds a limit, or broke a law of the simulator.
    pub fn finish(&mut self, handle: u32) -> Result<Vec<(&'static str, usize)>, Problem> {
        let limits = self.limits;
        let tables = &self.running(handle)?.finish(&limits)?.tables;
        Ok(tables.all().iter().filter(|table| !table.is_empty()).map(|table| (table.name(), table.len())).collect())
    }

    /// A table of a finished run as an Arrow IPC stream.
    ///
    /// # Errors
    /// If the run is not finished, or has no such table.
    pub fn arrow(&mut self, handle: u32, table: &str) -> Result<Vec<u8>, Problem> {
        self.table(handle, table).map(ipc::stream)
    }

    /// A table of a finished run as columns in Arrow's memory layout.
    ///
    /// # Errors
    /// If the run is not finished, or has no such table.
    pub fn columns(&mut self, handle: u32, table: &str) -> Result<Vec<ArrowColumn>, Problem> {
        self.table(handle, table).map(perigee_results::columns)
    }

    /// The captures of a finished run.
    ///
    /// # Errors
    /// If the run is not finished.
    pub fn captures(&mut self, handle: u32) -> Result<&[Captured], Problem> {
        Ok(&self.running(handle)?.result()?.captures)
    }

    /// Forgets a run.
    pub fn free(&mut self, handle: u32) {
        self.runs.remove(&handle);
    }

    fn running(&mut self, handle: u32) -> Result<&mut Running, Problem> {
        self.runs.get_mut(&handle).ok_or_else(|| Problem::new(Kind::Request, "this run was freed"))
    }

    fn table(&mut self, handle: u32, name: &str) -> Result<&dyn Table, Problem> {
        let tables = self.running(handle)?.result()?.tables.all();
        let found = tables.into_iter().find(|table| table.name() == name);
        found.ok_or_else(|| Problem::new(Kind::Request, format!("no table `{name}`")))
    }

    /// Reads a study and lays out its runs, unless that was done last.
    fn lay_out(&mut self, asked: Asked) -> Result<&Laid, Problem> {
        if self.read.as_ref().is_none_or(|(known, _)| *known != asked) {
            self.read = None;
            let laid = laid_out(&asked, &self.shelf)?;
            self.read = Some((asked, laid));
        }
        self.read.as_ref().map(|(_, laid)| laid).ok_or_else(|| Problem::new(Kind::Request, "no study was read"))
    }
}

fn laid_out(asked: &Asked, shelf: &Shelf) -> Result<Laid, Problem> {
    let Asked { text, file, overrides } = asked;
    let wrong = |error| Problem::of_study(&error, text, file);
    let study = Study::parse(text, file).map_err(wrong)?;
    let runs = study.plan(overrides, &mut shelf.of_study(file)).map_err(wrong)?;
    Ok(Laid { study, runs })
}

fn at(runs: &[Run], index: u32) -> Result<&Run, Problem> {
    runs.get(index as usize).ok_or_else(|| {
        let message = format!("there is no run {index}; the study has {} with these settings", runs.len());
        Problem::new(Kind::Request, message)
    })
}
