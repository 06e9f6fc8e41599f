//! Puts real packets of the real kernel on an emulated satellite link.
//!
//! A [`Driver`] moves packets through a link of `perigee-link`, the simulator's own model, on the wall clock: between
//! the two [`Tun`] devices of a [`TunWire`], which stand in [`Namespace`]s.

mod clean;
mod driver;
mod endpoint;
mod exec;
mod names;
mod namespace;
mod netlink;
mod outside;
mod packet;
mod tun;
mod wire;

pub use clean::{clean, Leftover};
pub use driver::{Driver, End, Report, Wire};
pub use endpoint::Endpoint;
pub use exec::{Exec, ExecError, Outcome, Surroundings, Watcher};
pub use namespace::Namespace;
pub use outside::Closed;
pub use tun::Tun;
pub use wire::TunWire;
