//! Loads the congestion controls of `algorithms/` into the running Linux kernel, as BPF `struct_ops`.
//!
//! [`load`] verifies an object, registers it under a name and pins it, so that it outlives the process; [`unload`]
//! removes it; [`status`] lists loaded algorithms and the sockets that use them. All act on the whole machine and need root.
//!
//! ```no_run
//! use perigee_bpf::{load, unload, InUse, Options, Program};
//! let hybla = Program::built_in("hybla", &[("rtt0", "50 ms")])?;
//! let loaded = load(&hybla, Options::default())?;
//! unload(&loaded.name, InUse::Refuse)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod error;
pub mod kernel;
mod load;
mod lock;
mod memory;
mod namespaces;
mod object;
mod prefix;
mod program;
pub mod requirements;
mod sockets;
mod status;
mod store;
mod tcp_log;
mod unload;
mod unpinned;

pub use error::{LoadError, StatusError, SystemError, UnloadError};
pub use load::{load, Loaded, Options};
pub use memory::{forget, memory, remember, Remembered};
pub use object::{ObjectError, Remember};
pub use prefix::{Prefix, PrefixError};
pub use program::{Program, ProgramError};
pub use requirements::Missing;
pub use sockets::SocketUse;
pub use status::{sockets, status, LoadedAlgorithm, Sockets, Status, Whose};
pub use store::LoadRecord;
pub use tcp_log::{tick_us, Logged, LoggedEnd, TcpEvent, TcpLog, TcpLogError, What};
pub use unload::{names, unload, InUse, Unloaded};
pub use unpinned::{load_unpinned, Unpinned};
