//! The study: what is asked, as a text a person writes; the plan of runs it makes; and the tables a run answers with.

pub mod results;
mod run;

pub use run::{Amount, App, FlowSpec, Measure, Run, RunLink, Scenario, Startup, Tcp, Traffic};
