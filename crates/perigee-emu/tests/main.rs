//! Studies and proxies on the real kernel, beside the simulator. One program: each is linked with the whole crate.

mod captures_alike;
mod codel;
mod common;
mod corpus;
mod ecn;
mod kinds;
mod limits;
mod mtu;
mod outcomes;
mod populations;
mod proxies;
mod quic;
mod recordings;
mod runs;
mod tdma;
