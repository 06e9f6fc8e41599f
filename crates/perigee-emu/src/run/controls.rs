//! Congestion controls of a run, as registered in the kernel.

use perigee_bpf::{load_unpinned, LoadError, Program, Unpinned};
use perigee_cc::Selected;

use crate::run::error::RunError;

/// The registered name of each congestion control of a run; loaded while this lives.
pub(crate) struct Controls {
    /// Algorithm, parameters, and their registered name.
    names: Vec<(String, Vec<u64>, String)>,
    /// The loaded algorithms.
    held: Vec<Unpinned>,
}

impl Controls {
    /// Uses the kernel's own algorithms if no parameter is set, and loads the others.
    pub(crate) fn new<'a>(chosen: impl Iterator<Item = &'a Selected>) -> Result<Self, RunError> {
        let mut controls = Self { names: Vec::new(), held: Vec::new() };
        for selected in distinct(chosen) {
            let name = selected.algorithm().name();
            let asked = if is_kernels(selected) {
                name.to_owned()
            } else {
                let program = Program::of(selected.clone())?;
                let asked = format!("e{}_{}", std::process::id() % 1_000_000, controls.names.len());
                controls.held.push(load_unpinned(&program, &asked)?);
                asked
            };
            controls.names.push((name.to_owned(), selected.values().to_vec(), asked));
        }
        Ok(controls)
    }

    /// The registered name of a selected algorithm.
    pub(crate) fn name_of(&self, selected: &Selected) -> &str {
        let name = selected.algorithm().name();
        let same = self.names.iter().find(|known| known.0 == name && known.1 == selected.values());
        same.map_or(name, |known| &known.2)
    }
}

/// Checks that all can be loaded; compiles authors' files for it.
pub(crate) fn check<'a>(chosen: impl Iterator<Item = &'a Selected>) -> Result<(), RunError> {
    let others: Vec<_> = distinct(chosen).into_iter().filter(|selected| !is_kernels(selected)).collect();
    if !others.is_empty() {
        perigee_bpf::requirements::check().map_err(LoadError::from)?;
    }
    others.into_iter().try_for_each(|selected| Ok(Program::of(selected.clone()).map(drop)?))
}

/// Each selection once.
fn distinct<'a>(chosen: impl Iterator<Item = &'a Selected>) -> Vec<&'a Selected> {
    let mut all: Vec<&Selected> = Vec::new();
    for selected in chosen {
        let same = |other: &&Selected| {
            other.algorithm().name() == selected.algorithm().name() && other.values() == selected.values()
        };
        if !all.iter().any(same) {
            all.push(selected);
        }
    }
    all
}

/// Whether the kernel has this algorithm, with these parameters.
fn is_kernels(selected: &Selected) -> bool {
    let name = selected.algorithm().name();
    KERNELS.contains(&name)
        && selected.algorithm().file().is_none()
        && selected.describe().is_empty()
        && perigee_bpf::kernel::registered().unwrap_or_default().iter().any(|known| known == name)
}

/// Linux's own algorithms that decide as ours do (docs/models/tcp.md).
const KERNELS: [&str; 3] = ["reno", "cubic", "bbr"];
