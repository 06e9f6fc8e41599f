//! Puts real packets of the real kernel on an emulated satellite link.
//!
//! A [`Driver`] moves packets through links of `perigee-link`, the simulator's own model, on the wall clock: between the
//! [`Tun`] devices of a [`TunWire`], which stand in [`Namespace`]s. [`run`] carries a run of a study out on the kernel's
//! own TCP; an [`Exec`] puts any program behind a link.

mod apps;
mod capacity;
mod clean;
mod clock;
mod connection;
mod controls;
mod datagrams;
pub mod dns;
mod driver;
mod ending;
mod endpoint;
mod event_log;
mod exec;
mod flows;
mod hosts;
mod label;
mod low_water;
mod names;
mod namespace;
mod netlink;
mod outside;
mod packet;
mod probes;
mod record;
mod requests;
mod run;
mod signals;
mod tcp_info;
mod tun;
mod watch;
mod wire;

pub use capacity::{Capacity, Outlook};
pub use clean::{clean, Leftover, Process};
pub use clock::monotonic;
pub use driver::{Both, Driver, End, Observer, Report, Under, Way, Wire};
pub use ending::Undelivered;
pub use endpoint::Endpoint;
pub use exec::{Exec, ExecError, Outcome, Surroundings, Watcher};
pub use namespace::Namespace;
pub use outside::Closed;
pub use record::{CaptureError, CaptureFiles};
pub use run::{check, run, RunError};
pub use tun::Tun;
pub use wire::TunWire;
