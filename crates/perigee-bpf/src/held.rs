//! An algorithm in the kernel for as long as somebody holds it.

use libbpf_rs::Link;

use crate::error::LoadError;
use crate::object::{Opened, Verified};
use crate::program::Program;
use crate::requirements;

/// An algorithm that is in the kernel as long as this lives, and no longer than its process.
///
/// Nothing pins it: `status` does not show it, and a kill leaves nothing.
pub struct Held {
    // The programs must outlive the link.
    _link: Link,
    _verified: Verified,
}

/// Loads an algorithm under a name that nobody has.
///
/// # Errors
/// Where the machine lacks something, or the kernel refuses it.
pub fn hold(program: &Program, name: &str) -> Result<Held, LoadError> {
    requirements::check()?;
    let mut verified = Opened::read(&program.object)?.verify(&program.selected, name)?;
    let link = verified.register()?;
    Ok(Held { _link: link, _verified: verified })
}
