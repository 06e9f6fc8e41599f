//! An algorithm that stays in the kernel only as long as its handle.

use libbpf_rs::Link;

use crate::error::LoadError;
use crate::object::{Opened, Verified};
use crate::program::Program;
use crate::requirements;

/// A handle that keeps an algorithm registered until it is dropped or its process ends.
///
/// It is not pinned: `status` does not list it, and a killed process leaves nothing.
pub struct Unpinned {
    // The programs must outlive the link.
    _link: Link,
    _verified: Verified,
}

/// Loads an algorithm under an unused name.
///
/// # Errors
/// If the machine lacks a requirement, or the kernel refuses the object.
pub fn load_unpinned(program: &Program, name: &str) -> Result<Unpinned, LoadError> {
    requirements::check()?;
    let mut verified = Opened::read(&program.object)?.verify(&program.selected, name)?;
    let link = verified.register()?;
    Ok(Unpinned { _link: link, _verified: verified })
}
