//! The table `states`: what congestion controls know, over time.
//!
//! Beside its fixed columns the table has one for each value that the congestion controls of a run let be watched.

use crate::table::{table, Cell, CellType, Column, Name, Table, Values};

table!(StateRows, StateRow, "states",
    "What the congestion control of each flow over TCP, or of one connection over QUIC, knows, where `measure.states` \
     asks for it: a row when its `state` has changed, or per acknowledgement. Behind these columns each algorithm has \
     its own, those it lets be watched (`perigee cc show`), which are empty in the rows of other algorithms." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    leg: Option<u32>, "", "Number of the leg, of a flow that proxies split; empty for the flow itself.";
    t_s: f64, "s", "When, in the run's time.";
    ca_state: Name, "", "`open`, `disorder`, `cwr`, `recovery` or `loss`: the state of the sender itself.";
    cwnd_packets: u32, "packets", "Congestion window.";
    ssthresh_packets: Option<u32>, "packets", "Slow start threshold; empty while there is none.";
    pacing_mbps: Option<f64>, "Mbit/s", "Pacing rate; empty where the sender does not pace.";
    inflight_packets: u32, "packets", "Packets in flight.";
    delivered_packets: u64, "packets", "Packets acknowledged since the connection began, cumulatively or selectively.";
    lost_packets: u64, "packets", "Packets marked lost since the connection began.";
    rtt_ms: Option<f64>, "ms", "Round trip that the acknowledgement measured; empty otherwise.";
    app_limited: bool, "", "Whether packets that leave now count as limited by the application, in delivery rate samples.";
});

/// The table `states`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct States {
    rows: StateRows,
    watched: Vec<WatchedColumn>,
}

/// The cells of a watched value.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedColumn {
    /// Its name, which ends in its unit.
    pub name: &'static str,
    /// A cell for each row.
    pub cells: WatchedCells,
}

/// Cells of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchedCells {
    /// Numbers.
    Numbers(Vec<Option<u64>>),
    /// Names of a choice.
    Names(Vec<Option<Name>>),
}

impl States {
    /// Adds rows with their watched values, of which each column has a cell for each row. Columns that the table has and the rows lack
    /// stay empty in them, and new ones in the rows before. A column of numbers and names holds texts.
    ///
    /// # Panics
    /// If a column has more or fewer cells than there are rows.
    pub fn add(&mut self, rows: impl IntoIterator<Item = StateRow>, watched: Vec<WatchedColumn>) {
        let before = self.rows.len();
        rows.into_iter().for_each(|row| self.rows.push(row));
        self.add_columns(before, watched);
    }

    /// Moves all rows of `other` to the end of this table.
    pub fn append(&mut self, other: &mut Self) {
        let before = self.rows.len();
        self.rows.append(&mut other.rows);
        self.add_columns(before, std::mem::take(&mut other.watched));
    }

    /// Adds the columns of the rows from number `before` on.
    fn add_columns(&mut self, before: usize, watched: Vec<WatchedColumn>) {
        let added = self.rows.len() - before;
        for WatchedColumn { name, cells } in watched {
            assert_eq!(cells.len(), added, "each column has a cell for each row");
            let place = self.watched.iter().position(|column| column.name == name).unwrap_or_else(|| {
                self.watched.push(WatchedColumn { name, cells: cells.empty(before) });
                self.watched.len() - 1
            });
            self.watched[place].cells.append(cells);
        }
        let rows = self.rows.len();
        for column in &mut self.watched {
            match &mut column.cells {
                WatchedCells::Numbers(cells) => cells.resize(rows, None),
                WatchedCells::Names(cells) => cells.resize(rows, None),
            }
        }
    }
}

impl Table for States {
    fn name(&self) -> &'static str {
        self.rows.name()
    }
    fn meaning(&self) -> &'static str {
        self.rows.meaning()
    }
    fn columns(&self) -> &'static [Column] {
        self.rows.columns()
    }
    fn values(&self, index: usize) -> Option<Values<'_>> {
        self.rows.values(index)
    }
    fn further(&self) -> Vec<(&'static str, CellType, Values<'_>)> {
        let columns = self.watched.iter();
        columns.map(|column| (column.name, column.cells.cell_type(), column.cells.values())).collect()
    }
    fn len(&self) -> usize {
        self.rows.len()
    }
}

impl WatchedCells {
    fn cell_type(&self) -> CellType {
        match self {
            Self::Numbers(_) => CellType::U64,
            Self::Names(_) => CellType::Text,
        }
    }

    fn values(&self) -> Values<'_> {
        match self {
            Self::Numbers(cells) => Values::OptionU64(cells),
            Self::Names(cells) => Values::OptionText(cells),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Numbers(cells) => cells.len(),
            Self::Names(cells) => cells.len(),
        }
    }

    /// Empty cells of this type.
    fn empty(&self, count: usize) -> Self {
        match self {
            Self::Numbers(_) => Self::Numbers(vec![None; count]),
            Self::Names(_) => Self::Names(vec![None; count]),
        }
    }

    fn append(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::Numbers(cells), Self::Numbers(more)) => cells.extend(more),
            (Self::Names(cells), more) => cells.extend(more.into_texts()),
            (Self::Numbers(_), Self::Names(more)) => {
                let mut cells = std::mem::replace(self, Self::Names(Vec::new())).into_texts();
                cells.extend(more);
                *self = Self::Names(cells);
            }
        }
    }

    fn into_texts(self) -> Vec<Option<Name>> {
        match self {
            Self::Numbers(cells) => {
                cells.into_iter().map(|cell| cell.map(|number| number.to_string().into())).collect()
            }
            Self::Names(cells) => cells,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<StateRow> {
        vec![StateRow::default(); count]
    }

    fn numbers(name: &'static str, cells: &[u64]) -> WatchedColumn {
        WatchedColumn { name, cells: WatchedCells::Numbers(cells.iter().copied().map(Some).collect()) }
    }

    fn names(name: &'static str, cells: &[&str]) -> WatchedColumn {
        WatchedColumn { name, cells: WatchedCells::Names(cells.iter().map(|cell| Some((*cell).into())).collect()) }
    }

    #[test]
    fn flows_with_other_values_leave_the_columns_of_each_other_empty() {
        let mut states = States::default();
        states.add(rows(2), vec![numbers("a", &[1, 2]), names("state", &["up", "down"])]);
        states.add(rows(1), Vec::new());
        let mut other = States::default();
        other.add(rows(1), vec![names("state", &["grow"]), numbers("b", &[7])]);
        states.append(&mut other);
        assert_eq!((states.len(), other.len()), (4, 0));
        let cells: Vec<_> = states.further();
        assert_eq!(cells[0].2, Values::OptionU64(&[Some(1), Some(2), None, None]));
        let texts = ["up", "down", "grow"].map(|text| Some(Name::from(text)));
        let [up, down, grow] = texts;
        assert_eq!(cells[1].2, Values::OptionText(&[up, down, None, grow]));
        assert_eq!(cells[2].2, Values::OptionU64(&[None, None, None, Some(7)]));
        assert_eq!(cells.iter().map(|column| column.0).collect::<Vec<_>>(), ["a", "state", "b"]);
    }

    #[test]
    fn a_value_that_is_a_number_here_and_a_name_there_is_text() {
        let mut states = States::default();
        states.add(rows(1), vec![numbers("x", &[1])]);
        states.add(rows(1), vec![names("x", &["up"])]);
        states.add(rows(1), vec![numbers("x", &[3])]);
        let texts = ["1", "up", "3"].map(|text| Some(Name::from(text)));
        assert_eq!(states.further()[0].2, Values::OptionText(&texts));
    }
}
