//! The study: its text, and the plan of runs that it describes.
//!
//! [`Study::parse`] reads and checks a study file, [`Study::plan`] lays it out as [`Run`]s; the tables that a run fills are
//! those of `perigee_results`. The reference of the file is `docs/reference/study.md`. Nothing here opens a file or reads a clock:
//! profiles, recordings and authors' algorithms come from [`Outside`].

mod built_in;
mod clocks;
mod document;
mod ends;
mod experiments;
mod flow_row;
mod flows;
mod hosts;
mod idle;
mod keys;
mod kinds;
mod limits;
mod link_queue;
mod link_reading;
mod links;
mod live;
mod media;
mod nodes;
mod outside;
mod overrides;
mod packets;
mod plan;
mod proxies;
mod quic;
mod reach;
mod read;
mod references;
mod reroute;
mod room;
mod routes;
mod run;
pub mod schema;
mod setup;
mod study;
mod topology;
mod transport;
mod values;

pub use hosts::system_settings;
pub use idle::without_effect;
pub use link_reading::read_link;
pub use links::direction::read_link_spec;
pub use links::process::Load;
pub use links::{profile, trace};
pub use live::Live;
pub use outside::{Outside, Place, Unusable};
pub use overrides::Overrides;
pub use perigee_wire::IpVersion;
pub use reach::Reach;
pub use reroute::{Reroute, RouteChange, Waiting, Watch, When};
pub use room::{Part, Room};
pub use run::{FlowSpec, LinkAt, QuicLoad, Run, RunLink, Scenario, Traffic};
pub use setup::setup_json;
pub use study::{plan_json, Layout, Study, StudyError};
pub use transport::{Handshake, Leg, LegEnd, LinkQueue, Opener, ProxySpec, Quic, QuicHandshake, StreamWindow, Tcp};
