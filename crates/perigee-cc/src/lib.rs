//! Hosts the congestion controls of `algorithms/` natively.
//!
//! Each C file there is compiled by the host's compiler and registered under its file name. A [`Socket`] holds the
//! kernel's view of a connection ([`TcpSock`]) and calls the algorithm's callbacks, which are those of Linux's
//! `tcp_congestion_ops`.
//!
//! ```
//! use perigee_cc::{CaState, Selected, Socket};
//! let reno = Selected::parse("reno", &[])?;
//! let mut socket = Socket::new(&reno, 1448, 10, 1);
//! socket.init();
//! (socket.snd_cwnd, socket.is_cwnd_limited) = (20, 1);
//! socket.snd_ssthresh = socket.ssthresh();
//! socket.set_state(CaState::Recovery);
//! assert_eq!(socket.snd_ssthresh, 10);
//! # Ok::<(), perigee_cc::CcError>(())
//! ```

mod algorithm;
mod description;
mod estimates;
mod parameter;
mod progress;
mod raw;
mod selected;
mod sock;
mod socket;
mod watched;

pub use algorithm::{admit, algorithms, find, Algorithm, File, Refusal};
pub use description::{describe, Image};
pub use estimates::{Departure, WindowedMin};
pub use parameter::Param;
pub use progress::{Callback, Fault, Progress, ProgressNote, MOST_FRAMES};
pub use raw::Ops;
pub use selected::{in_place_of, CcError, Selected};
pub use sock::*;
pub use socket::Socket;
pub use watched::{Watched, EMPTY, STATE_COLUMNS};
