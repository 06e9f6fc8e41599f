//! A run that the page has begun.

use std::ops::ControlFlow;
use std::ptr::NonNull;

use perigee_results::{Name, Series};
use perigee_sim::{RunResult, Simulation, EVENTS_PER_PROGRESS};
use perigee_study::Run;
use perigee_units::Time;

use crate::limits::Limits;
use crate::problem::{Kind, Problem};

/// A run that the page has begun.
pub(crate) struct Running {
    stage: Stage,
    /// Owned; the simulation refers to it.
    run: NonNull<Run>,
}

enum Stage {
    Going(Box<Simulation<'static>>),
    Finished(Box<RunResult>),
    /// It has no result.
    Failed,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The instant up to which it is simulated, s.
    pub t_s: f64,
    /// Whether nothing is left to simulate.
    pub is_done: bool,
    /// The completed share, 0 to 1.
    pub share: f64,
    /// Events processed so far.
    pub events: u64,
}

/// The course of a run over time so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// Flows and their legs; columns as [`Live::OF_FLOW`].
    pub flows: Vec<Curve>,
    /// Directed links; columns as [`Live::OF_LINK`].
    pub links: Vec<Curve>,
}

/// Values over time of one flow or link.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name of the flow or of the directed link.
    pub name: Name,
    /// Number of the flow's leg; 0: the flow itself, or a link.
    pub leg: u32,
    /// Row by row; an empty cell is NaN.
    pub cells: Vec<f64>,
}

impl Live {
    /// The columns of a flow.
    pub const OF_FLOW: [&str; 6] =
        ["t", "goodput_mbps", "cwnd_packets", "inflight_packets", "rtt_ms", "retransmitted_packets"];
    /// The columns of a link.
    pub const OF_LINK: [&str; 5] = ["t", "queue_bytes", "delivered_mbps", "dropped_packets", "rate_mbps"];
}

impl Running {
    /// A run before its first event.
    pub(crate) fn new(run: Run) -> Result<Self, Problem> {
        let mut running = Self { stage: Stage::Failed, run: NonNull::from(Box::leak(Box::new(run))) };
        // SAFETY: `drop` frees it, after the simulation.
        let simulation = Simulation::new(unsafe { running.run.as_ref() })?;
        running.stage = Stage::Going(Box::new(simulation));
        Ok(running)
    }

    /// Simulates until `until`, or until about `events` events are processed.
    pub(crate) fn advance(&mut self, until: Time, events: Option<u64>, limits: &Limits) -> Result<Progress, Problem> {
        let Stage::Going(simulation) = &mut self.stage else { return Err(not_going()) };
        let allowed = limits.events.saturating_sub(simulation.events());
        let mut piece = Piece::new(events.unwrap_or(u64::MAX), allowed, limits);
        simulation.advance(until.min(limits.simulated), &mut |_| piece.step());
        let (is_done, reached) = (simulation.is_over(), simulation.reached());
        if !is_done && reached >= limits.simulated {
            piece.exceeded.get_or_insert_with(|| limits.too_long());
        }
        if let Some(problem) = piece.exceeded {
            self.stage = Stage::Failed;
            return Err(problem);
        }
        let share = if is_done { 1.0 } else { simulation.standing().share };
        Ok(Progress { t_s: reached.as_secs_f64(), is_done, share, events: simulation.events() })
    }

    /// The series so far, after an instant.
    pub(crate) fn live(&mut self, after: Time) -> Result<Live, Problem> {
        let Stage::Going(simulation) = &mut self.stage else { return Err(not_going()) };
        let links = simulation.links(after);
        // SAFETY: it lives as long as this value, and is never changed.
        let interval = unsafe { self.run.as_ref() }.scenario.measure.series.unwrap_or(Time::from_secs(1));
        let mut live = Live { flows: flows(simulation.series(), interval, after), links: Vec::new() };
        for row in 0..links.t_s.len() {
            let cells = [
                links.t_s[row],
                links.queue_bytes[row] as f64,
                links.delivered_bytes[row] as f64 * 8e-6 / interval.as_secs_f64(),
                links.dropped_packets[row] as f64,
                links.rate_mbps[row],
            ];
            add(&mut live.links, &links.link[row], 0, &cells);
        }
        Ok(live)
    }

    /// Simulates what is left and writes the tables; again, it only returns them.
    pub(crate) fn finish(&mut self, limits: &Limits) -> Result<&RunResult, Problem> {
        if let Stage::Going(_) = &self.stage {
            while !self.advance(Time::MAX, None, limits)?.is_done {}
            if let Stage::Going(simulation) = std::mem::replace(&mut self.stage, Stage::Failed) {
                self.stage = Stage::Finished(Box::new(simulation.finish(&mut |_| ControlFlow::Continue(()))?));
            }
        }
        self.result()
    }

    /// The result of a finished run.
    pub(crate) fn result(&self) -> Result<&RunResult, Problem> {
        match &self.stage {
            Stage::Finished(result) => Ok(result),
            Stage::Going(_) | Stage::Failed => Err(Problem::new(Kind::Request, "this run has no result")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stage = Stage::Failed;
        // SAFETY: it was leaked in `new`, and what referred to it is gone.
        drop(unsafe { Box::from_raw(self.run.as_ptr()) });
    }
}

/// The work of one call.
struct Piece<'a> {
    /// Steps of [`EVENTS_PER_PROGRESS`] events that are wanted, and those that are allowed.
    wanted: u64,
    allowed: u64,
    limits: &'a Limits,
    exceeded: Option<Problem>,
}

impl<'a> Piece<'a> {
    fn new(wanted: u64, allowed: u64, limits: &'a Limits) -> Self {
        let steps = |events: u64| (events / EVENTS_PER_PROGRESS).max(1);
        Self { wanted: steps(wanted), allowed: steps(allowed), limits, exceeded: None }
    }

    fn step(&mut self) -> ControlFlow<()> {
        (self.wanted, self.allowed) = (self.wanted - 1, self.allowed - 1);
        self.exceeded = self.limits.exceeded_memory();
        if self.allowed == 0 {
            self.exceeded = Some(self.limits.too_many_events());
        }
        if self.wanted == 0 || self.exceeded.is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// The rows that were written after an instant. The last row of a flow ends with it, and is written at the end of the interval.
fn flows(series: &Series, interval: Time, after: Time) -> Vec<Curve> {
    let written = |t_s: &f64| {
        let intervals = Time::from_secs_f64(*t_s).as_nanos().div_ceil(interval.as_nanos().max(1));
        Time::from_nanos(intervals * interval.as_nanos())
    };
    let mut curves = Vec::new();
    for row in series.t_s.partition_point(|t_s| written(t_s) <= after)..series.t_s.len() {
        let number = |cell: Option<u32>| cell.map_or(f64::NAN, f64::from);
        let cells = [
            series.t_s[row],
            series.goodput_mbps[row],
            number(series.cwnd_packets[row]),
            number(series.inflight_packets[row]),
            series.rtt_mean_ms[row].unwrap_or(f64::NAN),
            series.retransmitted_packets[row].map_or(f64::NAN, |packets| packets as f64),
        ];
        add(&mut curves, &series.flow[row], series.leg[row].unwrap_or(0), &cells);
    }
    curves
}

/// Adds a row to the curve of this name.
fn add(curves: &mut Vec<Curve>, name: &Name, leg: u32, cells: &[f64]) {
    let found = curves.iter_mut().find(|curve| curve.leg == leg && curve.name == *name);
    match found {
        Some(curve) => curve.cells.extend_from_slice(cells),
        None => curves.push(Curve { name: name.clone(), leg, cells: cells.to_vec() }),
    }
}

fn not_going() -> Problem {
    Problem::new(Kind::Request, "this run is finished, or has failed")
}
