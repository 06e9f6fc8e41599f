//! A network link as a machine without clock, randomness or files of its own.
//!
//! A [`Link`] is one direction: a queue, a server and the air behind it. It is offered packets at instants and says when
//! they get to its end. A [`LinkSpec`] says what it is made of; a [`profile`] is a file of two of them, and [`trace`]
//! reads recordings.

mod delay;
mod link;
mod loss;
pub mod profile;
mod queue;
mod read;
mod server;
mod spec;
mod steps;
pub mod strict;
pub mod trace;
mod wander;

pub use link::{Counters, Delivery, DropReason, Ecn, Link, Offered, Packet, Transit};
pub use read::Load;
pub use spec::{
    AqmSpec, Body, DelaySpec, Fluctuation, Jitter, LinkSpec, Loaded, LossSpec, QueueSpec, RateSpec, Tail, TailShape,
};
pub use steps::Steps;
