//! Whole runs: laws, flows, determinism, captures.

mod captures;
mod determinism;
mod faults;
mod flows;
mod laws;
mod link_queues;
mod marks;
mod media;
mod offload;
mod outcomes;
mod pages;
mod pieces;
mod populations;
mod processing;
mod proxies;
mod proxy_captures;
mod proxy_laws;
mod proxy_populations;
mod queues;
#[cfg(feature = "quic")]
mod quic;
#[cfg(feature = "quic")]
mod quic_pages;
mod routes;
mod states;
mod transports;
mod tunnels;

use std::ops::ControlFlow;

use perigee_study::{Overrides, Run, Study};

use crate::carriage::Carriage;
use crate::engine::Engine;
use crate::{RunResult, SimError};

/// The first run of a study given as text.
fn plan(text: &str) -> Run {
    let study = Study::parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut no_files = |name: &str| Err(format!("a test has no file {name}"));
    let runs = study.plan(&Overrides::default(), &mut no_files).unwrap_or_else(|error| panic!("{error}\n{text}"));
    runs.into_iter().next().expect("a plan has a run")
}

fn carry_out(run: &Run, carriage: Carriage) -> Result<RunResult, SimError> {
    Engine::new(run, carriage)?.run(&mut |_| ControlFlow::Continue(()))
}

/// The result of a study's first run.
fn result(text: &str) -> RunResult {
    carry_out(&plan(text), Carriage::default()).expect("the run succeeds")
}

/// A sender `a`, a router `r` and a receiver `b`: a fast link, and this bottleneck.
fn through_router(bottleneck: &str, measure_and_flows: &str) -> String {
    format!(
        r#"
        name = "test"
        nodes = ["a", "r", "b"]
        [[links]]
        name = "access"
        between = ["a", "r"]
        rate = "1 Gbit/s"
        delay = "1 ms"
        [[links]]
        name = "bottleneck"
        between = ["r", "b"]
        {bottleneck}
        {measure_and_flows}
        "#
    )
}
