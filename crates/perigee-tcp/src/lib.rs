//! A TCP endpoint without I/O: the host reports events (`on_*`) and asks for work (`poll_*`, `next_timer`).
//!
//! The endpoint behaves like a current Linux kernel. It owns no clock and no random numbers, and counts payload instead of storing it.

#![allow(clippy::inline_always, reason = "each is on the path of every packet, whose instructions are counted")]

/// `Clone` for a struct of many parts: in the memory of another one, each is written in its place.
macro_rules! clone_by_field {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl Clone for $type {
            fn clone(&self) -> Self {
                Self { $($field: self.$field.clone()),* }
            }

            fn clone_from(&mut self, from: &Self) {
                $(self.$field.clone_from(&from.$field);)*
            }
        }
    };
}

mod aggregate;
mod endpoint;
mod info;
mod receiver;
mod route_metrics;
mod segment;
mod sender;
mod tick;

pub use endpoint::{Batch, Endpoint, Failure};
pub use info::Info;
pub use route_metrics::RouteMetrics;
pub use segment::{Flags, Header, Segment, Train, MAX_SACK_BLOCKS};
pub use sender::Limits;
