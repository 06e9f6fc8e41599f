//! The congestion controls of a run, as the kernel knows them.

use perigee_bpf::{hold, Held, LoadError, Program};
use perigee_cc::Selected;

use crate::run::RunError;

/// What sockets ask for, for each congestion control of a run; loaded as long as this lives.
pub(crate) struct Controls {
    /// By the algorithm and its values: the name that sockets ask for.
    names: Vec<(String, Vec<u64>, String)>,
    /// What had to be loaded.
    held: Vec<Held>,
}

impl Controls {
    /// Those that the kernel has itself stay its own, where nothing of them is set; the others are loaded.
    pub(crate) fn new<'a>(chosen: impl Iterator<Item = &'a Selected>) -> Result<Self, RunError> {
        let mut controls = Self { names: Vec::new(), held: Vec::new() };
        for selected in distinct(chosen) {
            let name = selected.algorithm().name();
            let asked = if is_kernels(selected) {
                name.to_owned()
            } else {
                let program = Program::of(selected.clone())?;
                let asked = format!("e{}_{}", std::process::id() % 1_000_000, controls.names.len());
                controls.held.push(hold(&program, &asked)?);
                asked
            };
            controls.names.push((name.to_owned(), selected.values().to_vec(), asked));
        }
        Ok(controls)
    }

    /// What sockets ask for.
    pub(crate) fn name_of(&self, selected: &Selected) -> &str {
        let name = selected.algorithm().name();
        let same = self.names.iter().find(|known| known.0 == name && known.1 == selected.values());
        same.map_or(name, |known| &known.2)
    }
}

/// Whether all of them can be loaded; authors' files are compiled for it.
pub(crate) fn check<'a>(chosen: impl Iterator<Item = &'a Selected>) -> Result<(), RunError> {
    let others: Vec<_> = distinct(chosen).into_iter().filter(|selected| !is_kernels(selected)).collect();
    if !others.is_empty() {
        perigee_bpf::requirements::check().map_err(LoadError::from)?;
    }
    others.into_iter().try_for_each(|selected| Ok(Program::of(selected.clone()).map(drop)?))
}

/// Each once.
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

/// Whether it is one that the kernel has, as the kernel has it.
fn is_kernels(selected: &Selected) -> bool {
    let name = selected.algorithm().name();
    KERNELS.contains(&name)
        && selected.algorithm().file().is_none()
        && selected.describe().is_empty()
        && perigee_bpf::kernel::registered().unwrap_or_default().iter().any(|known| known == name)
}

/// Linux's own algorithms whose decisions ours are (docs/models/tcp.md).
const KERNELS: [&str; 3] = ["reno", "cubic", "bbr"];
