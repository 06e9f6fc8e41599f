//! Turns one file of `algorithms/`, or an author's own, into an object, with the compilers of the host.
//!
//! [`shared_library`] makes what the simulator loads, [`kernel_object`] what the running kernel loads. Both need a folder
//! that holds `tcp.h`. What the compiler warned of is returned, not printed: the caller decides who reads it.
//!
//! ```no_run
//! use std::path::Path;
//! let warnings = perigee_cc_build::kernel_object(Path::new("mycc.c"), Path::new("algorithms"), Path::new("mycc.o"))?;
//! eprint!("{warnings}");
//! # Ok::<(), perigee_cc_build::BuildError>(())
//! ```

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use thiserror::Error;

/// Why there is no object.
#[derive(Debug, Error)]
pub enum BuildError {
    /// None of the compilers is installed.
    #[error("no {kind} compiler is installed (looked for {tried}); install the package `{package}`")]
    CompilerMissing {
        /// What it compiles.
        kind: &'static str,
        /// The commands that were looked for.
        tried: String,
        /// The Debian package that has one.
        package: &'static str,
    },
    /// `bpf/bpf_helpers.h` and its kin are not there.
    #[error("the headers of libbpf are not installed; install the package `libbpf-dev` (or `libbpf-devel`)")]
    HeadersMissing,
    /// The compiler was built without BPF.
    #[error("`{compiler}` has no bpf target; install the package `clang`, or name another in the variable CLANG")]
    NoBpfTarget {
        /// The command.
        compiler: String,
    },
    /// The file has errors.
    #[error("{} does not compile:\n{messages}", source_file.display())]
    Compile {
        /// The file.
        source_file: PathBuf,
        /// What the compiler said, whole: file, line and column are the author's.
        messages: String,
    },
    /// The compiler could not be run.
    #[error("`{compiler}` cannot be run: {error}")]
    Io {
        /// The command.
        compiler: String,
        /// Why.
        error: io::Error,
    },
}

/// Compiles an algorithm for the simulator: a shared library that exports `perigee_cc_NAME`.
///
/// The compiler is `$CC` (with arguments, if it has any), or else the first of `cc`, `gcc` and `clang` that is there.
/// Returns what it warned of.
///
/// # Errors
/// Where there is no compiler, or the file does not compile.
pub fn shared_library(source: &Path, include: &Path, out: &Path) -> Result<String, BuildError> {
    let compilers = candidates("CC", &["cc", "gcc", "clang"]);
    compile("C", "gcc", &compilers, &[NATIVE, COMMON].concat(), source, include, out)
}

/// Compiles an algorithm for the kernel: a relocatable BPF object with its types.
///
/// The compiler is `$CLANG`, or else `clang`, alone or with a version in its name. Returns what it warned of.
///
/// # Errors
/// Where there is no clang, it cannot compile for BPF, libbpf's headers are missing, or the file does not compile.
pub fn kernel_object(source: &Path, include: &Path, out: &Path) -> Result<String, BuildError> {
    let compilers = candidates("CLANG", CLANGS);
    compile("BPF", "clang", &compilers, &[KERNEL, COMMON].concat(), source, include, out)
}

fn compile(
    kind: &'static str,
    package: &'static str,
    compilers: &[OsString],
    options: &[&str],
    source: &Path,
    include: &Path,
    out: &Path,
) -> Result<String, BuildError> {
    for compiler in compilers {
        let name = compiler.to_string_lossy();
        let mut words = name.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(options).arg("-I").arg(include).arg("-o").arg(out).arg(source);
        // Its messages are searched below, and read by whoever reads ours.
        command.env("LC_ALL", "C").stdin(Stdio::null());
        match command.output() {
            Ok(output) => return judge(&name, source, &output),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(BuildError::Io { compiler: name.into_owned(), error }),
        }
    }
    let tried: Vec<_> = compilers.iter().map(|compiler| compiler.to_string_lossy()).collect();
    Err(BuildError::CompilerMissing { kind, tried: tried.join(", "), package })
}

fn judge(compiler: &str, source: &Path, output: &Output) -> Result<String, BuildError> {
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok(messages);
    }
    let header_missing = |line: &str| line.contains("fatal error: ") && line.contains("bpf/bpf_");
    if messages.lines().any(header_missing) {
        return Err(BuildError::HeadersMissing);
    }
    if messages.contains("unable to create target") || messages.contains("unknown target triple") {
        return Err(BuildError::NoBpfTarget { compiler: compiler.to_owned() });
    }
    Err(BuildError::Compile { source_file: source.to_owned(), messages })
}

/// The compiler that the environment names, or those that a host may have.
fn candidates(variable: &str, usual: &[&str]) -> Vec<OsString> {
    match std::env::var_os(variable).filter(|named| !named.is_empty()) {
        Some(named) => vec![named],
        None => usual.iter().map(|name| OsStr::new(name).to_owned()).collect(),
    }
}

/// Callbacks have the kernel's signature whether or not they use each argument.
const COMMON: &[&str] = &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter"];
/// As the kernel is built: overflow wraps, and the private area is bytes to be viewed as any struct.
/// `CC_LIBRARY`: `tcp.h` exports the algorithm. What is nowhere defined is an error here, at the author's line.
const NATIVE: &[&str] = &["-DCC_LIBRARY", "-fPIC", "-shared", "-Wl,-z,defs", "-fwrapv", "-fno-strict-aliasing"];
/// The third instruction set has arithmetic and jumps of 32 bits, which windows are; every kernel since 5.1 has it.
const KERNEL: &[&str] = &["-target", "bpf", "-mcpu=v3", "-g", "-fno-strict-aliasing", "-fwrapv", "-c"];
const CLANGS: &[&str] =
    &["clang", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_answered_with_the_package_to_install() {
        let compilers = ["no-such-cc".into(), "nor-this-one".into()];
        let path = Path::new("x.c");
        let error = compile("C", "gcc", &compilers, COMMON, path, path, path).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no C compiler is installed (looked for no-such-cc, nor-this-one); install the package `gcc`"
        );
    }

    #[test]
    fn a_compiler_is_found_behind_one_that_is_not_there() {
        let compilers = ["no-such-cc".into(), "true --with arguments".into()];
        let path = Path::new("x.c");
        assert_eq!(compile("C", "gcc", &compilers, COMMON, path, path, path).unwrap(), "");
    }

    #[test]
    fn a_header_or_a_target_that_is_missing_is_told_from_an_error_of_the_author() {
        let failed = |said: &str| {
            let mut output = Command::new("false").output().unwrap();
            output.stderr = said.into();
            judge("clang", Path::new("mycc.c"), &output).unwrap_err()
        };
        let header = "algorithms/tcp.h:44:10: fatal error: 'bpf/bpf_helpers.h' file not found";
        assert!(matches!(failed(header), BuildError::HeadersMissing));
        let target = "error: unable to create target: 'No available targets are compatible with triple \"bpf\"'";
        assert!(matches!(failed(target), BuildError::NoBpfTarget { .. }));
        assert!(matches!(failed("mycc.c:3:1: error: unknown type name"), BuildError::Compile { .. }));
    }
}
