//! A network link as a machine without clock, randomness or files of its own.
//!
//! A [`LinkSpec`] says what one direction of a link is made of; a [`profile`] is a file of two of them.

pub mod profile;
mod read;
mod spec;
mod steps;
pub mod strict;
pub mod trace;

pub use read::Load;
pub use spec::{
    AqmSpec, Body, DelaySpec, Fluctuation, Jitter, LinkSpec, Loaded, LossSpec, QueueSpec, RateSpec, Tail, TailShape,
};
pub use steps::Steps;
