//! Requests of the page.

use std::collections::BTreeMap;

use perigee_cc::Algorithm;
use perigee_results::{ArrowColumn, Table};
use perigee_sim::Captured;
use perigee_study::{Layout, Overrides, Run, Study};
use perigee_units::Time;
use serde_json::{json, Value};

use crate::limits::Limits;
use crate::problem::{Kind, Problem, Remark};
use crate::running::{Live, Progress, Running};
use crate::shelf::Shelf;
use crate::{catalogue, describe, memory};

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

/// A study, and its runs, which are laid out when they are asked for.
struct Laid {
    study: Study,
    layout: Layout,
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
    pub fn check(&mut self, asked: &Asked) -> Vec<Remark> {
        let checked = self.lay_out(asked).and_then(|(laid, shelf)| {
            let wrong = |error| Problem::of_study(&error, &asked.text, &asked.file);
            laid.layout.check(&mut shelf.of_study(&asked.file)).map_err(wrong)
        });
        checked.err().map_or_else(Vec::new, |problem| problem.errors)
    }

    /// The study with the first `most` of its runs, and the network of one of them.
    ///
    /// # Errors
    /// If the study is wrong, or has no such run.
    pub fn describe(&mut self, asked: &Asked, run: u32, most: u32) -> Result<Value, Problem> {
        let is_reducible = catalogue::is_reducible(&asked.text, &asked.file);
        let drawn = self.run(asked, run)?;
        let (Laid { study, layout }, _) = self.lay_out(asked)?;
        Ok(describe::describe(study, layout, &drawn, most, is_reducible))
    }

    /// Begins a run of a study, and returns its handle.
    ///
    /// # Errors
    /// If the study is wrong, has no such run, or the run cannot begin.
    pub fn start(&mut self, asked: &Asked, run: u32) -> Result<u32, Problem> {
        let running = Running::new(self.run(asked, run)?)?;
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
        self.table(handle, table).map(perigee_results::stream)
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

    /// A run of a study.
    fn run(&mut self, asked: &Asked, index: u32) -> Result<Run, Problem> {
        let (Laid { layout, .. }, shelf) = self.lay_out(asked)?;
        if index >= layout.runs() {
            let message = format!("there is no run {index}; the study has {} with these settings", layout.runs());
            return Err(Problem::new(Kind::Request, message));
        }
        let wrong = |error| Problem::of_study(&error, &asked.text, &asked.file);
        layout.run(index, &mut shelf.of_study(&asked.file)).map_err(wrong)
    }

    /// Reads a study, unless that was done last.
    fn lay_out(&mut self, asked: &Asked) -> Result<(&mut Laid, &Shelf), Problem> {
        if self.read.as_ref().is_none_or(|(known, _)| known != asked) {
            self.read = None;
            self.read = Some((asked.clone(), laid_out(asked)?));
        }
        let laid = self.read.as_mut().map(|(_, laid)| laid);
        laid.map(|laid| (laid, &self.shelf)).ok_or_else(|| Problem::new(Kind::Request, "no study was read"))
    }
}

fn laid_out(asked: &Asked) -> Result<Laid, Problem> {
    let Asked { text, file, overrides } = asked;
    let wrong = |error| Problem::of_study(&error, text, file);
    let study = Study::parse(text, file).map_err(wrong)?;
    let layout = study.layout(overrides).map_err(wrong)?;
    Ok(Laid { study, layout })
}
