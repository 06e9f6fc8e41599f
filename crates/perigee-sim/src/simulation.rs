//! A run in pieces.

use std::ops::ControlFlow;

use perigee_results::{Links, Series, Standing};
use perigee_study::Run;
use perigee_units::Time;

use crate::carriage::Carriage;
use crate::engine::Engine;
use crate::result::{RunResult, SimError};

/// A run that is simulated in pieces, with its series so far between them. The tables are those of [`run`](crate::run), however it is
/// divided.
pub struct Simulation<'a> {
    run: &'a Run,
    engine: Engine<'a>,
    /// All events up to this instant have been processed.
    reached: Time,
    is_over: bool,
}

impl<'a> Simulation<'a> {
    /// A run before its first event.
    ///
    /// # Errors
    /// As [`run`](crate::run), but for [`SimError::Cancelled`] and [`SimError::Fault`].
    pub fn new(run: &'a Run) -> Result<Self, SimError> {
        let engine = Engine::new(run, Carriage::of(&run.scenario))?;
        Ok(Self { run, engine, reached: Time::ZERO, is_over: false })
    }

    /// Processes all events up to `until`. `progress` is called after each
    /// [`EVENTS_PER_PROGRESS`](crate::EVENTS_PER_PROGRESS) events; a break ends this piece early.
    pub fn advance(&mut self, until: Time, progress: &mut dyn FnMut(&Standing) -> ControlFlow<()>) {
        self.engine.world.process_until(until);
        let reached = match self.engine.carry_out(progress) {
            Ok(()) => {
                let end = self.engine.world.end();
                self.is_over = until >= end || self.engine.world.network.queue.is_empty();
                until.min(end)
            }
            // Some events at the latest instant may be left.
            Err(_) => self.engine.latest - Time::from_nanos(1),
        };
        self.reached = self.reached.max(reached);
    }

    /// The instant up to which the run is simulated.
    pub fn reached(&self) -> Time {
        self.reached
    }

    /// Whether nothing is left to simulate.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Progress of the run.
    pub fn standing(&self) -> Standing {
        self.engine.standing(self.reached)
    }

    /// Number of events processed.
    pub fn events(&self) -> u64 {
        self.engine.events
    }

    /// The series of the flows so far, in the order of intervals. The last row of a flow, which ends with it, is written at the end of
    /// the interval.
    pub fn series(&self) -> &Series {
        &self.engine.tables.series
    }

    /// The rows of the links after an instant so far, link by link.
    pub fn links(&mut self, after: Time) -> Links {
        let mut links = Links::default();
        self.engine.world.network.write_so_far(self.run.index, after, self.reached, &mut links);
        links
    }

    /// Simulates what is left, and returns the result.
    ///
    /// # Errors
    /// [`SimError::Cancelled`] if `progress` breaks, [`SimError::Fault`] if the run broke a law of the simulator.
    pub fn finish(mut self, progress: &mut dyn FnMut(&Standing) -> ControlFlow<()>) -> Result<RunResult, SimError> {
        self.advance(Time::MAX, progress);
        if !self.is_over {
            return Err(SimError::Cancelled);
        }
        self.engine.check()?;
        Ok(self.engine.finish())
    }
}
