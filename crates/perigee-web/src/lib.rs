//! The simulator, its studies, profiles and congestion controls as one WebAssembly module, for a page that has no server.
//!
//! [`Engine`] answers what a page asks for: it checks and describes a study, simulates its runs in pieces, and hands over their tables.
//! The exports of the module are two functions that exchange JSON and addresses (`abi.rs`), and `web/perigee.js` makes objects of them.
//! Natively this crate is a library with the same `Engine`, which tests use.

pub mod abi;
mod catalogue;
mod describe;
mod engine;
mod limits;
mod memory;
mod problem;
mod request;
mod running;
mod shelf;

pub use engine::{Asked, Engine};
pub use limits::Limits;
pub use problem::{Kind, Problem, Remark};
pub use running::{Curve, Live, Progress};
