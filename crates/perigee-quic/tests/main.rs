//! Connections of two endpoints over a path in memory.

mod common;
mod handshakes;
mod keys;
mod stack;
mod transfers;
