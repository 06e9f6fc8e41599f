//! The congestion controls of a run, as the kernel knows them.

use perigee_bpf::{hold, Held, Program};
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
        let own = perigee_bpf::kernel::registered().unwrap_or_default();
        for selected in chosen {
            let name = selected.algorithm().name();
            if controls.names.iter().any(|known| known.0 == name && known.1 == selected.values()) {
                continue;
            }
            let kernels = KERNELS.contains(&name) && own.iter().any(|known| known == name);
            let asked = if kernels && selected.describe().is_empty() {
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

/// Whether an algorithm is one of Perigee's own, of which there is an object for the kernel.
pub(crate) fn is_built_in(selected: &Selected) -> bool {
    perigee_cc::algorithms().iter().any(|algorithm| std::ptr::eq(algorithm, selected.algorithm()))
}

/// Linux's own algorithms whose decisions ours are (docs/models/tcp.md).
const KERNELS: [&str; 3] = ["reno", "cubic", "bbr"];
