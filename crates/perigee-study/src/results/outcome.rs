//! How flows end.

use super::{FlowRow, Name};

/// How a flow ended, in every engine; the column `outcome` of the table `flows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Everything asked for was carried.
    Completed,
    /// The run's time was up before that.
    TimeLimit,
    /// Neither end had anything left to send that the other waits for.
    Stalled,
    /// The other host refused the connection.
    Refused,
    /// The other host reset the connection.
    Reset,
    /// The other host did not answer any more, or never did.
    TimedOut,
    /// The network has no way to the other host.
    Unreachable,
    /// It ended in another way, or its end was not recorded.
    Stopped,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Completed,
        Self::TimeLimit,
        Self::Stalled,
        Self::Refused,
        Self::Reset,
        Self::TimedOut,
        Self::Unreachable,
        Self::Stopped,
    ];

    /// The word that results have for it.
    ///
    /// ```
    /// assert_eq!(perigee_study::results::Outcome::TimedOut.as_str(), "timed_out");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::TimeLimit => "time_limit",
            Self::Stalled => "stalled",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Stopped => "stopped",
        }
    }

    /// The outcome that results have this word for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }

    /// As a cell of a table.
    pub fn name(self) -> Name {
        self.as_str().into()
    }
}

impl FlowRow {
    /// Says how the flow ended.
    pub fn set_outcome(&mut self, outcome: Outcome) {
        self.completed = outcome == Outcome::Completed;
        self.outcome = outcome.name();
    }
}
