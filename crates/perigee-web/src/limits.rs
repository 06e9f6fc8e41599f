//! Limits of a study in a page: memory, work, and simulated time.

use perigee_units::{Bytes, Time};

use crate::memory;
use crate::problem::{Kind, Problem};

/// Limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of the whole module, bytes.
    pub memory: u64,
    /// Events of a run.
    pub events: u64,
    /// Simulated time of a run.
    pub simulated: Time,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 512_000_000, events: 500_000_000, simulated: Time::from_secs(3600) }
    }
}

impl Limits {
    /// The problem with the memory that is in use, if it is too much.
    pub(crate) fn exceeded_memory(&self) -> Option<Problem> {
        let most = Bytes::new(self.memory);
        // Tables are written and handed over beside what is in use.
        (memory::in_use() as u64 > self.memory / 4 * 3).then(|| {
            let fix = "shorten the run, raise `measure.series`, or switch off logs and captures in [measure]";
            Problem::new(Kind::Limit, format!("the run takes more memory than {most}; {fix}"))
        })
    }

    pub(crate) fn too_many_events(&self) -> Problem {
        let fix = "shorten the run, lower the rates, or have fewer flows";
        Problem::new(Kind::Limit, format!("the run takes more than {} events; {fix}", self.events))
    }

    pub(crate) fn too_long(&self) -> Problem {
        let fix = "set a `time_limit`, or shorter flows";
        Problem::new(Kind::Limit, format!("the run goes on after {}; {fix}", self.simulated))
    }
}
