//! What is measured of flows and links, by every engine alike.
//!
//! A [`Meter`] is told of one flow what arrives, and which round trips its sender sees; it writes the flow's rows. A
//! [`LinkLog`] counts a link's intervals. Neither knows where packets come from.

mod datagrams;
mod histogram;
mod link_log;
mod meter;
mod observed;
mod rows;

pub use datagrams::{Answers, Delays};
pub use link_log::{write_links, LinkLog};
pub use meter::{mbps, steady_of_size, steady_of_time, Meter, Of, Sent, State, SteadyBegin};
pub use observed::{write_observed, Observed, SenderSample};
pub use rows::{blank_row, empty_row};
