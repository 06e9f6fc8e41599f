//! The study: what is asked, as a text a person writes; the plan of runs it makes; and the tables a run answers with.
//!
//! [`Study::parse`] reads and checks a study file, [`Study::plan`] lays it out as [`Run`]s, [`results`] holds the tables
//! a run fills. The reference of the file is `docs/reference/study.md`. Nothing here opens a file or reads a clock:
//! profiles, recordings and authors' algorithms come from [`Outside`].

mod document;
mod keys;
mod links;
mod live;
mod outside;
mod plan;
mod read;
mod reader;
pub mod results;
mod room;
mod run;
pub mod schema;
mod study;
mod topology;

pub use live::Live;
pub use outside::{Outside, Place, Unusable};
pub use room::{Part, Room};
pub use run::{Amount, App, FlowSpec, IpVersion, Measure, Opener, Run, RunLink, Scenario, Startup, Tcp, Traffic};
pub use study::{plan_json, Overrides, Study, StudyError};
