//! Turns one file of `algorithms/`, or an author's own, into an object, with the compilers of the host.
//!
//! [`shared_library`] makes what the simulator loads, [`kernel_object`] what the running kernel loads, [`browser_module`] what
//! a page loads. All need a folder that holds `tcp.h`. Warnings are returned, not printed. A compiler is confined to the
//! system's folders, the file's and the output's, without network, and has limits of time, memory and output, see [`bounded`].
//!
//! ```no_run
//! use std::path::Path;
//! let warnings = perigee_cc_build::kernel_object(Path::new("mycc.c"), Path::new("algorithms"), Path::new("mycc.o"))?;
//! eprint!("{warnings}");
//! # Ok::<(), perigee_cc_build::BuildError>(())
//! ```

pub mod bounded;
mod confinement;
mod crash;
mod hints;
pub mod seccomp;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bounded::{Ending, Limits, Outcome};
use confinement::{confine, Held, Reach};
use hints::hints;

pub use confinement::{confine_program, die_with, is_enforced};

/// Why there is no object.
#[derive(Debug)]
pub enum BuildError {
    /// No compiler is installed.
    CompilerMissing {
        /// The language of the output: `C` or `BPF`.
        kind: &'static str,
        /// The commands that were looked for.
        tried: String,
        /// The Debian package that has one.
        package: &'static str,
    },
    /// libbpf's headers are missing.
    HeadersMissing,
    /// The compiler was built without BPF.
    NoBpfTarget {
        /// The command.
        compiler: String,
    },
    /// The file has errors.
    Compile {
        /// The file.
        source_file: PathBuf,
        /// The compiler's messages, whole: file, line and column are the author's.
        messages: String,
    },
    /// The compiler could not be run.
    Io {
        /// The command.
        compiler: String,
        /// Why.
        error: io::Error,
    },
    /// The compiler exceeded its time.
    TooLong {
        /// The command.
        compiler: String,
        /// The time.
        longest: Duration,
    },
    /// The kernel cannot confine a compiler of strangers' texts.
    Unconfined,
    /// The caller stopped the compilation.
    Stopped,
}

impl BuildError {
    /// Returns a description of the error without the fix.
    pub fn message(&self) -> String {
        match self {
            Self::CompilerMissing { kind, tried, .. } => {
                format!("no {kind} compiler is installed (looked for {tried})")
            }
            Self::HeadersMissing => "the headers of libbpf are not installed".to_owned(),
            Self::NoBpfTarget { compiler } => format!("`{compiler}` has no bpf target"),
            Self::Compile { source_file, messages } => {
                format!("{} does not compile:\n{messages}", source_file.display())
            }
            Self::Io { compiler, error } => format!("`{compiler}` cannot be run: {error}"),
            Self::TooLong { compiler, longest } => {
                format!("`{compiler}` had not ended after {} s, and was ended", longest.as_secs())
            }
            Self::Unconfined => "this kernel has no Landlock, which would confine the compiler".to_owned(),
            Self::Stopped => "the compilation was stopped".to_owned(),
        }
    }

    /// Returns the fix, where the message does not say it.
    pub fn fix(&self) -> Option<String> {
        match self {
            Self::CompilerMissing { package, .. } => Some(format!("install the package `{package}`")),
            Self::HeadersMissing => Some("install the package `libbpf-dev` (or `libbpf-devel`)".to_owned()),
            Self::NoBpfTarget { .. } => {
                Some("install the package `clang`, or name another in the variable CLANG".to_owned())
            }
            Self::TooLong { .. } => {
                Some("look for an #include of a device or a pipe, or for macros without end".to_owned())
            }
            Self::Unconfined => Some("use Linux 5.13 or later with `landlock` in its list `lsm=`".to_owned()),
            Self::Compile { .. } | Self::Io { .. } | Self::Stopped => None,
        }
    }
}

/// `message; fix`, or the message alone.
impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        self.fix().map_or(Ok(()), |fix| write!(f, "; {fix}"))
    }
}

impl std::error::Error for BuildError {}

/// Called some hundred times a second while a compiler runs; `false` stops it.
pub type GoOn<'a> = dyn FnMut() -> bool + 'a;

/// Compiles an algorithm for the simulator: a shared library that exports `perigee_cc_NAME`.
///
/// The compiler is `$CC` (with arguments, if it has any), or else the first of `cc`, `gcc` and `clang` that is there.
/// Returns its warnings; floating point, which the kernel would refuse, is one of them.
///
/// # Errors
/// Where there is no compiler, the file does not compile, or `go_on` says no.
pub fn shared_library(source: &Path, include: &Path, out: &Path, go_on: &mut GoOn<'_>) -> Result<String, BuildError> {
    let compilers = candidates("CC", CS);
    let paths = [source, include, out];
    match compile(&C, &compilers, paths, &[WITHOUT_FLOATS], go_on) {
        Err(BuildError::Compile { messages, .. }) => {
            let warnings = compile(&C, &compilers, paths, &[], go_on).map_err(|error| brief(error, None))?;
            Ok(floats(&messages).map_or(String::new(), |place| warning(source, place)) + &warnings)
        }
        done => done,
    }
}

/// Writes what the preprocessor makes of an algorithm for the simulator, with the files and lines that it comes from.
///
/// # Errors
/// As [`shared_library`].
pub fn preprocessed(source: &Path, include: &Path, out: &Path, go_on: &mut GoOn<'_>) -> Result<(), BuildError> {
    compile(&C, &candidates("CC", CS), [source, include, out], &[WITHOUT_FLOATS, "-E"], go_on).map(drop)
}

/// The place of the first floating point in the messages of a compiler that had to do without; `None`: it has other reasons.
fn floats(messages: &str) -> Option<&str> {
    let is_float = |line: &&str| {
        let is_register = line.contains(" SSE ") || line.contains("floating-point") || line.contains("floating point");
        // Functions of the compiler's own for what the processor may not do: `__muldf3`.
        let is_function = line.contains("undefined reference to `__")
            && ["sf", "df", "xf", "tf"]
                .iter()
                .any(|kind| line.rsplit("`__").next().is_some_and(|name| name.contains(kind)));
        is_register || is_function
    };
    messages.lines().find(is_float).map(place)
}

/// `FILE:LINE` of a message, as far as it has them.
fn place(line: &str) -> &str {
    let number = line.match_indices(':').find(|(at, _)| {
        let rest = &line[at + 1..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        digits > 0 && rest[digits..].starts_with(':')
    });
    let Some((at, _)) = number else { return "" };
    let digits = line[at + 1..].find(':').unwrap_or_default();
    &line[..at + 1 + digits]
}

fn warning(source: &Path, place: &str) -> String {
    let place = if place.is_empty() { source.display().to_string() } else { place.to_owned() };
    format!(
        "{place}: warning: floating point; the kernel has none, and refuses this file (`perigee cc check`): use integers with a \
         scale\n"
    )
}

/// Compiles an algorithm for the kernel: a relocatable BPF object with its types.
///
/// The compiler is `$CLANG`, or else `clang`, alone or with a version in its name. Returns its warnings.
///
/// # Errors
/// Where there is no clang, it cannot compile for BPF, libbpf's headers are missing, or the file does not compile.
pub fn kernel_object(source: &Path, include: &Path, out: &Path) -> Result<String, BuildError> {
    let compilers = candidates("CLANG", CLANGS);
    let built = compile(&BPF, &compilers, [source, include, out], &[], &mut || true);
    let place = match &built {
        Err(BuildError::Compile { messages, .. }) if crash::lacks_place(messages) => {
            let program = |more: &[&str]| {
                let path = out.with_extension("ll");
                compile(&BPF, &compilers, [source, include, &path], more, &mut || true).ok()?;
                std::fs::read_to_string(&path).ok()
            };
            program(PROGRAM).zip(program(PLAIN_PROGRAM)).and_then(|(program, plain)| crash::place_in(&program, &plain))
        }
        _ => None,
    };
    built.map_err(|error| brief(error, place.as_deref()))
}

/// The error with one line in place of a compiler's crash; `division` is where a signed division is, if the compiler does not say it.
fn brief(error: BuildError, division: Option<&str>) -> BuildError {
    match error {
        BuildError::Compile { source_file, messages } if crash::is_in(&messages) => {
            BuildError::Compile { messages: crash::condensed(&source_file, &messages, division), source_file }
        }
        other => other,
    }
}

/// Compiles an algorithm that may be a stranger's for browsers: a WebAssembly module. The compiler, found as for
/// [`kernel_object`], has the limits of [`Limits::SERVER`], and `longest` by the clock.
///
/// # Errors
/// As [`kernel_object`]; and where the kernel cannot confine the compiler.
pub fn browser_module(source: &Path, include: &Path, out: &Path, longest: Duration) -> Result<(), BuildError> {
    let target = Target { limits: Limits { longest, ..Limits::SERVER }, ..BROWSER };
    compile(&target, &candidates("CLANG", CLANGS), [source, include, out], &[], &mut || true).map(drop)
}

/// A target of compilation, with the options of the compiler.
struct Target {
    name: &'static str,
    /// The Debian package that has a compiler for it.
    package: &'static str,
    /// Its own options, those of a text a line each.
    options: &'static [&'static str],
    limits: Limits,
    /// Compile nothing where the kernel cannot confine the compiler.
    must_be_confined: bool,
}

fn compile(
    target: &Target,
    compilers: &[OsString],
    [source, include, out]: [&Path; 3],
    more: &[&str],
    go_on: &mut GoOn<'_>,
) -> Result<String, BuildError> {
    for compiler in compilers {
        let name = compiler.to_string_lossy();
        let mut words = name.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        if target.must_be_confined {
            // A server's environment may hold secrets: a stranger's compiler gets none of it but `PATH`.
            command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        }
        command.args(words).args(target.options.iter().flat_map(|options| options.lines())).args(common());
        command.args(more);
        command.arg("-I").arg(include).arg("-o").arg(out).arg(no_option(source));
        // Its messages are searched below, so that they are in one language.
        command.env("LC_ALL", "C");
        // A link to a file elsewhere is followed to that file.
        let real = source.canonicalize().unwrap_or_else(|_| source.to_owned());
        let reads = [folder_of(source), &real, include];
        let confined = confine(&mut command, &Reach { reads: &reads, writes: folder_of(out) });
        let ran = confined.and_then(|held| match held {
            Held::No if target.must_be_confined => Ok(None),
            _ => bounded::run(&mut command, target.limits, go_on).map(Some),
        });
        match ran {
            Ok(Some(outcome)) => return judge(&name, target.limits, source, outcome),
            Ok(None) => return Err(BuildError::Unconfined),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(BuildError::Io { compiler: name.into_owned(), error }),
        }
    }
    let tried: Vec<_> = compilers.iter().map(|compiler| compiler.to_string_lossy()).collect();
    Err(BuildError::CompilerMissing { kind: target.name, tried: tried.join(", "), package: target.package })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Returns the path in a form that no compiler takes for an option (`-oX.c`) or a file of options (`@X.c`).
fn no_option(source: &Path) -> PathBuf {
    match source.components().next() {
        Some(Component::Normal(first)) if matches!(first.as_encoded_bytes().first(), Some(b'-' | b'@')) => {
            Path::new(".").join(source)
        }
        _ => source.to_owned(),
    }
}

fn judge(compiler: &str, limits: Limits, source: &Path, outcome: Outcome) -> Result<String, BuildError> {
    let Outcome { ending, mut messages } = outcome;
    let status = match ending {
        Ending::Itself(status) if status.success() => return Ok(messages),
        Ending::Itself(status) => status,
        Ending::TooLong => {
            return Err(BuildError::TooLong { compiler: compiler.to_owned(), longest: limits.longest });
        }
        Ending::Stopped => return Err(BuildError::Stopped),
    };
    let header_missing = |line: &str| line.contains("fatal error: ") && line.contains("bpf/bpf_");
    if messages.lines().any(header_missing) {
        return Err(BuildError::HeadersMissing);
    }
    if messages.contains("unable to create target") || messages.contains("unknown target triple") {
        return Err(BuildError::NoBpfTarget { compiler: compiler.to_owned() });
    }
    if messages.is_empty() {
        messages = format!("`{compiler}` ended with {status}, and said nothing\n");
    }
    messages += &hints(&messages);
    Err(BuildError::Compile { source_file: source.to_owned(), messages })
}

/// The compiler that the environment names, or those that a host may have.
fn candidates(variable: &str, usual: &[&str]) -> Vec<OsString> {
    match std::env::var_os(variable).filter(|named| !named.is_empty()) {
        Some(named) => vec![named],
        None => usual.iter().map(|name| OsStr::new(name).to_owned()).collect(),
    }
}

/// The options of every build of an algorithm. As the kernel is built, overflow wraps, and the private area is bytes to be
/// viewed as any struct. Callbacks have the kernel's signature whether or not they use each argument.
fn common() -> impl Iterator<Item = &'static str> {
    include_str!("../../../algorithms/compile_flags.txt").lines()
}

const C: Target =
    Target { name: "C", package: "gcc", options: NATIVE, limits: Limits::COMMAND, must_be_confined: false };
const BPF: Target = Target { name: "BPF", package: "clang", options: KERNEL, ..C };
const BROWSER: Target =
    Target { name: "WebAssembly", package: "clang", options: MODULE, limits: Limits::SERVER, must_be_confined: true };
/// `CC_LIBRARY`: `host/native.h` exports the algorithm. An undefined name is an error here, at the author's line.
/// Debug information and frame pointers tell where it crashed; the information is no part of what is compared between builds. A
/// division by zero traps on every processor, and is not optimised away as something that cannot be: the kernel defines it.
const NATIVE: &[&str] = &[
    "-DCC_LIBRARY",
    "-fPIC",
    "-shared",
    "-Wl,-z,defs",
    "-Wl,--build-id=none",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=integer-divide-by-zero",
    "-fsanitize-undefined-trap-on-error",
];
/// Refuses floating point, which the kernel does not have either.
const WITHOUT_FLOATS: &str = "-mgeneral-regs-only";
/// The third instruction set has arithmetic and jumps of 32 bits, which windows are; every kernel since 5.1 has it.
const KERNEL: &[&str] = &[include_str!("../../../algorithms/compile_flags_bpf.txt"), "-c"];
/// Writes the program as text, before its instructions are chosen.
const PROGRAM: &[&str] = &["-S", "-emit-llvm"];
/// Writes it as it is before the optimizer.
const PLAIN_PROGRAM: &[&str] = &["-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes"];
/// An undefined function would be one of the host's for the linker, and its message has no line.
const MODULE: &[&str] = &[
    include_str!("../../../algorithms/compile_flags_wasm.txt"),
    "-nostdinc",
    "-fno-caret-diagnostics",
    "-fno-crash-diagnostics",
    "-ferror-limit=20",
    "-Werror=implicit-function-declaration",
];
const CS: &[&str] = &["cc", "gcc", "clang"];
const CLANGS: &[&str] =
    &["clang", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"];

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(compilers: &[OsString], source: &str) -> Result<String, BuildError> {
        let path = Path::new(source);
        compile(&C, compilers, [path, path, Path::new("/dev/null")], &[], &mut || true)
    }

    #[test]
    fn a_missing_compiler_is_answered_with_the_package_to_install() {
        let error = compiled(&["no-such-cc".into(), "nor-this-one".into()], "x.c").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no C compiler is installed (looked for no-such-cc, nor-this-one); install the package `gcc`"
        );
    }

    #[test]
    fn a_compiler_is_found_behind_one_that_is_not_there() {
        assert_eq!(compiled(&["no-such-cc".into(), "true --with arguments".into()], "x.c").unwrap(), "");
    }

    #[test]
    fn a_file_whose_name_looks_like_an_option_is_a_file_all_the_same() {
        for (name, given) in [
            ("-oX.c", "./-oX.c"),
            ("@X.c", "./@X.c"),
            ("-o/X.c", "./-o/X.c"),
            ("./-oX.c", "./-oX.c"),
            ("X.c", "X.c"),
            ("../-oX.c", "../-oX.c"),
            ("/-oX.c", "/-oX.c"),
        ] {
            assert_eq!(no_option(Path::new(name)), Path::new(given));
        }
        // The file is not there, so that a compiler that takes it for one says so.
        for name in ["-oX.c", "@X.c"] {
            let error = compiled(&["cc".into()], name).unwrap_err().to_string();
            assert!(error.contains(&format!("./{name}: No such file")), "{error}");
        }
    }

    #[test]
    fn a_compiler_that_was_ended_by_a_signal_is_an_error_with_its_reason() {
        let error = compiled(&["tests/ended".into()], "x.c").unwrap_err().to_string();
        assert!(error.contains("`tests/ended` ended with signal: 9 (SIGKILL)"), "{error}");
    }

    #[test]
    fn floating_point_is_known_by_what_each_compiler_says_of_it() {
        let gcc = "fp.c: In function 'grow':\nfp/fp.c:51:28: error: SSE register return with SSE disabled";
        assert_eq!(floats(gcc), Some("fp/fp.c:51"));
        let clang = "/usr/bin/ld: in function `grow':\n/tmp/fp.c:50: undefined reference to `__muldf3'";
        assert_eq!(floats(clang), Some("/tmp/fp.c:50"));
        let arm = "fp.c:7:3: error: '-mgeneral-regs-only' is incompatible with the use of floating-point types";
        assert_eq!(floats(arm), Some("fp.c:7"));
        assert_eq!(floats("fp.c:(.text+0x5d): undefined reference to `__floatunsidf'"), Some(""));
        assert_eq!(floats("x.c:3:1: error: unknown type name 'flout'"), None);
        assert_eq!(floats("x.c:3: undefined reference to `__other'"), None);
    }

    #[test]
    fn a_header_or_a_target_that_is_missing_is_told_from_an_error_of_the_author() {
        let failed = |said: &str| {
            let status = Command::new("false").status().unwrap();
            let outcome = Outcome { ending: Ending::Itself(status), messages: said.to_owned() };
            judge("clang", Limits::COMMAND, Path::new("mycc.c"), outcome).unwrap_err()
        };
        let header = "algorithms/tcp.h:44:10: fatal error: 'bpf/bpf_helpers.h' file not found";
        assert!(matches!(failed(header), BuildError::HeadersMissing));
        let target = "error: unable to create target: 'No available targets are compatible with triple \"bpf\"'";
        assert!(matches!(failed(target), BuildError::NoBpfTarget { .. }));
        assert!(matches!(failed("mycc.c:3:1: error: unknown type name"), BuildError::Compile { .. }));
    }
}
