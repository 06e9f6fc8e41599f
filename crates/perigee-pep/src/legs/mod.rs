//! The two legs of a connection: their sockets, and the bytes between them.

pub(crate) mod carrier;
pub(crate) mod connection;
mod reader;
pub(crate) mod socket;
