//! This host: its kernel's system calls, clock and rules, and its service manager.

pub(crate) mod at_end;
pub(crate) mod bridge;
pub(crate) mod channel;
pub(crate) mod clock;
pub(crate) mod confinement;
pub(crate) mod congestion;
pub(crate) mod counters;
pub(crate) mod deployment;
mod finding;
pub(crate) mod intercept;
pub(crate) mod lines;
mod matches;
mod netlink;
pub(crate) mod notify;
pub(crate) mod one_way;
mod routes;
pub(crate) mod survey;
pub(crate) mod sys;
pub(crate) mod threads;
pub(crate) mod tools;
mod watch;
