//! Connections of two endpoints over a path in memory.

mod common;
mod handshakes;
mod stack;
mod transfers;
