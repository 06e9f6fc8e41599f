//! The event loop of a thread.

pub(crate) mod agenda;
pub(crate) mod slab;
