//! Puts real packets of the real kernel on an emulated satellite link.
//!
//! A [`Driver`] moves packets through links of `perigee-link`, the simulator's own model, on the wall clock: between
//! the [`Tun`] devices of a [`TunWire`], in [`Namespace`]s. [`run`] executes a run of a study on the kernel's own TCP;
//! an [`Exec`] puts any program behind a link.

mod exec;
mod link;
mod os;
mod run;

pub use exec::dns;
pub use exec::leftovers::{clean, Leftover, Process};
pub use exec::nat::Isolation;
pub use exec::shutdown::Undelivered;
pub use exec::{DirectionSample, Exec, ExecError, ExecObserver, ExecReport, LiveSample, Reachability};
pub use link::driver::{BufferedPacket, DirectedLink, Driver, End, LinkReport, Observer, ObserverPair, Wire};
pub use link::endpoint::Endpoint;
pub use link::wire::TunWire;
pub use os::clock::monotonic;
pub use os::namespace::Namespace;
pub use os::tun::Tun;
pub use run::capacity::{Capacity, Outlook};
pub use run::captures::{CaptureError, CaptureFiles};
pub use run::{apart, carry_apart, check, host_sysctls, hurry, run, run_beside, HostSysctls, RunError, MOST_SOCKETS};
