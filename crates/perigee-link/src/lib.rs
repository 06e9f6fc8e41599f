//! A network link as a machine without clock, randomness or files of its own.
//!
//! A [`LinkSpec`] says what one direction of a link is made of.

mod spec;
mod steps;
pub mod strict;

pub use spec::{
    AqmSpec, Body, DelaySpec, Fluctuation, Jitter, LinkSpec, Loaded, LossSpec, QueueSpec, RateSpec, Tail, TailShape,
};
pub use steps::Steps;
