//! A performance enhancing proxy (RFC 3135): splits TCP connections so that each leg has a congestion control, buffers and
//! timers of its own.
//!
//! [`Config`] selects the connections, [`run`] is the service, and [`main`] its command line. The relay between two legs decides
//! without sockets (`relay`); sockets, event loops and the kernel's rules are built around it.

mod command;
mod config;
mod doctor;
mod error;
mod event_loop;
mod host;
mod legs;
mod link;
mod relay;
mod service;
mod shared;
mod tunnel;
mod version;

pub use command::main;
pub use config::{
    reference, Accounting, Allow, Asking, AtLimit, Config, Forward, Leg, Limits, Network, Portion, Ports, RateSource,
    Rates, Request, Rule, SatelliteLink, SubscriberClass, Terminal, Transparent, Tunnel, TunnelControl, TunnelEnd,
};
pub use error::ServiceError;
pub use host::channel::{Channel, Message};
pub use perigee_text::Origin;
pub use service::{read, run, Embedded};
pub use shared::Carried;
