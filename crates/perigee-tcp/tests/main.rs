//! An endpoint of TCP at the end of a path. One program: each is linked with the whole crate.

mod ack_events;
mod cheats;
mod clocks;
mod common;
mod ecn;
mod late_reader;
mod limits;
mod nagle;
mod pacing_bound;
mod recovery;
mod retries;
mod routes;
mod send_buffer;
mod tick;
mod transfer;
mod windows;
