//! Compiles an author's C file with the host's compiler, describes it, and loads it into a process of its own.
//!
//! Name, parameters and sizes are read from the compiled file; none of its code is executed. A process of its own executes it,
//! with limits ([`confine`]), which gets the compiled file from the one that compiled it ([`Loader::confined`]); or describes it first, and
//! loads it when it has no rights left ([`Loader::given`], [`load_described`]).
//!
//! ```no_run
//! use std::path::Path;
//! let mut loader = perigee_cc_load::Loader::new(Path::new("algorithms").into());
//! let algorithm = loader.load(Path::new("mycc.c"), "mycc.c", &mut || true)?;
//! let selected = perigee_cc::Selected::of(algorithm, &[("beta", "70 %")]);
//! # Ok::<(), perigee_cc_load::LoadError>(())
//! ```

mod alone;
mod browser;
mod check;
mod confined;
mod error;
mod faults;
mod image;
mod kept;
mod lines;
mod loader;
mod outside;
mod scratch;
pub mod trial;

pub use browser::browser_module;
pub use check::{check, CheckReport, ForKernel};
pub use confined::{confine, confine_nobody, Compiled};
pub use error::LoadError;
pub use faults::WHERE;
pub use lines::{lines_of, Line};
pub use loader::{load_described, Loader};
pub use perigee_cc_build::{confine_program, die_with, is_enforced as compilers_are_confined, BuildError};
pub use scratch::{scratch, scratch_prefix, started, sweep};
