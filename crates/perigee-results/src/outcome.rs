//! The outcomes of flows, and the row of a flow before it is filled.

use crate::{FlowRow, Name};

/// The end of a flow, in every engine; the column `outcome` of the table `flows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It carried all of its data.
    Completed,
    /// The run's time limit ended it.
    TimeLimit,
    /// Its own duration was over before both of its ends were connected.
    Unconnected,
    /// Neither end had anything left to send, and each waited for the other.
    Stalled,
    /// The other host refused the connection.
    Refused,
    /// The other host reset the connection.
    Reset,
    /// The other host never answered, or stopped answering.
    TimedOut,
    /// The network has no route to the other host.
    Unreachable,
    /// It ended in another way, or its end was not recorded.
    Stopped,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 9] = [
        Self::Completed,
        Self::TimeLimit,
        Self::Unconnected,
        Self::Stalled,
        Self::Refused,
        Self::Reset,
        Self::TimedOut,
        Self::Unreachable,
        Self::Stopped,
    ];

    /// Its name in results.
    ///
    /// ```
    /// assert_eq!(perigee_results::Outcome::TimedOut.as_str(), "timed_out");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::TimeLimit => "time_limit",
            Self::Unconnected => "unconnected",
            Self::Stalled => "stalled",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Stopped => "stopped",
        }
    }

    /// The outcome of a name in results.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }

    /// As a cell of a table.
    pub fn name(self) -> Name {
        self.as_str().into()
    }
}

impl FlowRow {
    /// An empty row for a flow.
    pub fn new(run: u32, flow: Name) -> Self {
        let (point, cc_params) = ("{}".into(), "{}".into());
        Self { run, flow, point, cc_params, outcome: Outcome::Stopped.name(), ..Self::default() }
    }

    /// Sets the outcome, and whether the flow completed.
    pub fn set_outcome(&mut self, outcome: Outcome) {
        self.completed = outcome == Outcome::Completed;
        self.outcome = outcome.name();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flows, Table};

    #[test]
    fn the_meaning_of_the_column_has_the_word_of_every_outcome() {
        let flows = Flows::default();
        let meaning =
            flows.columns().iter().find(|column| column.name == "outcome").map_or("", |column| column.meaning);
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::parse(outcome.as_str()), Some(outcome));
            assert!(meaning.contains(&format!("`{}`", outcome.as_str())), "{outcome:?}");
        }
    }
}
