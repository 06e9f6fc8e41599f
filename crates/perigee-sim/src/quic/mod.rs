//! Flows over QUIC (`docs/models/quic.md`), whatever carries their datagrams: links in virtual time, or sockets on the wall clock.

mod browser;
mod carrier;
mod connection;
mod end;
mod in_world;
mod session;
mod start;

pub use carrier::{Carrier, MakeKeys, Place, QuicFlow, Wake};
pub(crate) use in_world::InWorld;
pub use start::{check, logs, start};
