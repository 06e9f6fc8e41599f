//! A performance enhancing proxy (RFC 3135): splits TCP connections so that each leg has a congestion control, buffers and
//! timers of its own.
//!
//! [`Config`] selects the connections, [`run`] is the service, and [`main`] its command line. The relay between two legs decides
//! without sockets (`relay`); sockets, event loops and the kernel's rules are built around it.

mod account;
mod agenda;
mod answers;
mod carried;
mod carrier;
mod clock;
mod command;
mod config;
mod confinement;
mod connection;
mod doctor;
mod embedded;
mod error;
mod handover;
mod hold;
mod intercept;
mod leg;
mod log;
mod network;
mod notify;
mod permit;
mod relay;
mod service;
mod shared;
mod slab;
mod stats;
mod sys;
mod team;
mod tunnel;
mod worker;

pub use carried::Carried;
pub use command::main;
pub use config::{
    reference, Allow, AtLimit, Config, Forward, Leg, Limits, Ports, Request, Rule, Terminal, Transparent, Tunnel,
    TunnelCongestion, TunnelEnd,
};
pub use embedded::Embedded;
pub use error::ServiceError;
pub use network::Network;
pub use service::{read, run};
