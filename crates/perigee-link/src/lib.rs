//! A network link as a machine without clock, randomness or files of its own.

pub mod strict;
