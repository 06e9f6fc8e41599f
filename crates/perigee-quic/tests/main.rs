//! Connections of two endpoints over a path in memory.

mod common;
mod early_loss;
mod handshakes;
mod keys;
mod qlog;
mod stack;
mod transfers;
