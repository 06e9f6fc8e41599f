//! The registry: one entry per file of `algorithms/`.

use std::ffi::{c_char, CStr};
use std::sync::LazyLock;

use crate::parameter::Param;
use crate::raw::{Ops, RawAlgorithm};

/// A congestion control.
pub struct Algorithm {
    pub(crate) ops: Ops,
    name: &'static str,
    title: &'static str,
    params: Vec<Param>,
    state_bytes: u32,
    storage_bytes: u32,
}

impl Algorithm {
    /// What studies call it: the name of its file.
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// Its name and source in one line.
    pub fn title(&self) -> &'static str {
        self.title
    }
    /// Its parameters, in the order of [`crate::TcpSock::cc_params`].
    pub fn params(&self) -> &[Param] {
        &self.params
    }
    /// Size of its state in the socket's private area, at most [`crate::CA_PRIV_BYTES`].
    pub fn state_bytes(&self) -> u32 {
        self.state_bytes
    }
    /// Size of its state in per-socket storage beyond the private area; 0: it needs none.
    pub fn storage_bytes(&self) -> u32 {
        self.storage_bytes
    }
    /// It owns window and pacing rate; otherwise the host reduces the window and paces, if it does.
    pub fn has_cong_control(&self) -> bool {
        self.ops.cong_control.is_some()
    }
}

impl std::fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Algorithm").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Every algorithm there is, by name.
pub fn algorithms() -> &'static [Algorithm] {
    static ALGORITHMS: LazyLock<Vec<Algorithm>> =
        LazyLock::new(|| ALL.iter().map(|exported| load(exported.get())).collect());
    &ALGORITHMS
}

/// The algorithm of this name.
pub fn find(name: &str) -> Option<&'static Algorithm> {
    algorithms().iter().find(|a| a.name == name)
}

fn load(raw: &'static RawAlgorithm) -> Algorithm {
    // SAFETY: CC_REGISTER makes `params` an array of at least `param_count` entries.
    let params = unsafe { std::slice::from_raw_parts(raw.params, raw.param_count as usize) };
    let params = params.iter().map(|p| Param {
        name: text(p.name),
        unit: text(p.unit),
        default: p.fallback,
        min: p.low,
        max: p.high,
        doc: text(p.doc),
    });
    Algorithm {
        ops: raw.ops,
        name: text(raw.ops.name.as_ptr()),
        title: text(raw.title),
        params: params.collect(),
        // SAFETY: CC_REGISTER takes the addresses of constants of the object.
        state_bytes: unsafe { *raw.state_bytes },
        // SAFETY: as above.
        storage_bytes: unsafe { *raw.storage_bytes },
    }
}

/// A string literal of the C file.
fn text(literal: *const c_char) -> &'static str {
    // SAFETY: the macros of tcp.h accept literals only: terminated, and alive as long as the program.
    let literal = unsafe { CStr::from_ptr(literal) };
    literal.to_str().unwrap_or("(not UTF-8)")
}

/// The address of what one object file exports.
struct Exported(*const RawAlgorithm);

// SAFETY: the address is of constant data.
unsafe impl Sync for Exported {}

impl Exported {
    fn get(&self) -> &'static RawAlgorithm {
        // SAFETY: a constant of the linked object; the build compared its layout.
        unsafe { &*self.0 }
    }
}

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(name: &str) -> Option<(u32, u32)> {
        find(name).map(|algorithm| (algorithm.state_bytes(), algorithm.storage_bytes()))
    }

    #[test]
    fn an_algorithm_says_how_large_its_state_is() {
        assert_eq!(sizes("reno"), Some((0, 0)));
        assert!(sizes("cubic").is_some_and(|(private, storage)| private > 0 && storage == 0));
        assert!(sizes("vivace").is_some_and(|(private, storage)| private == 0 && storage > 104));
    }
}
