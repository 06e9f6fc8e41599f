//! Compiles a text that may be a stranger's for browsers.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::error::LoadError;
use crate::loader::refused;

/// The WebAssembly module of the file at `source`, which includes the `tcp.h` of the folder `headers`. The compiler can reach
/// the system's files, the headers and the folder of the file, which it writes to, and no other; it may take `longest`.
///
/// # Errors
/// If it does not compile, takes too much, or the kernel cannot confine the compiler.
pub fn browser_module(source: &Path, headers: &Path, longest: Duration) -> Result<Vec<u8>, LoadError> {
    let module = source.with_extension("wasm");
    perigee_cc_build::browser_module(source, headers, &module, longest).map_err(refused)?;
    fs::read(&module).map_err(LoadError::Temporary)
}
