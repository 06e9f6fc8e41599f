//! The log of a congestion control: a row when its state has changed, or for each ACK.

use perigee_cc::{Watched, EMPTY};
use perigee_results::{FlowId, Name, StateRow, States, StatesOf, WatchedCells, WatchedColumn};
use perigee_tcp::{Endpoint, Flags, Header};
use perigee_units::Time;

pub(crate) struct StateLog {
    of: StatesOf,
    /// The rows; run, flow and leg are set when they are written.
    rows: Vec<StateRow>,
    /// The watched values of all rows, one row after the other.
    values: Vec<u64>,
    /// Watched values of the row that may follow.
    next: Vec<u64>,
    /// The state in the last row, see [`StateLog::state_of`].
    state: Option<u64>,
}

impl StateLog {
    pub(crate) fn new(of: StatesOf) -> Self {
        Self { of, rows: Vec::new(), values: Vec::new(), next: Vec::new(), state: None }
    }

    /// After a segment from the receiver, with the round-trip sample it gave.
    pub(crate) fn acknowledged(&mut self, now: Time, header: &Header, rtt: Option<Time>, host: &mut Endpoint) {
        let is_ack = header.flags.has(Flags::ACK) && !header.flags.has(Flags::SYN);
        if is_ack || self.of == StatesOf::Changes {
            self.look(now, rtt, host);
        }
    }

    /// After any other event at the sender.
    pub(crate) fn passed(&mut self, now: Time, host: &mut Endpoint) {
        if self.of == StatesOf::Changes {
            self.look(now, None, host);
        }
    }

    /// Adds a row, unless only changes are wanted and the state is that of the last row.
    fn look(&mut self, now: Time, rtt: Option<Time>, host: &mut Endpoint) {
        if !host.was_established() {
            return;
        }
        host.watch(&mut self.next);
        let state = self.state_of(host);
        if self.of == StatesOf::Changes && self.state == Some(state) {
            return;
        }
        self.state = Some(state);
        self.values.extend_from_slice(&self.next);
        let info = host.info();
        let last = self.rows.last().map(|row| &row.ca_state);
        let ca_state = match last.filter(|last| ***last == *info.ca_state.as_str()) {
            Some(same) => same.clone(),
            None => info.ca_state.as_str().into(),
        };
        self.rows.push(StateRow {
            t_s: now.as_secs_f64(),
            ca_state,
            cwnd_packets: info.cwnd,
            ssthresh_packets: info.ssthresh,
            pacing_mbps: info.pacing_rate_bps.map(|bps| bps as f64 / 1e6),
            inflight_packets: info.inflight,
            delivered_packets: info.delivered,
            lost_packets: info.lost,
            rtt_ms: rtt.map(Time::as_millis_f64),
            app_limited: info.app_limited,
            ..StateRow::default()
        });
    }

    /// The algorithm's watched value `state`; without one, the state of TCP.
    fn state_of(&self, host: &Endpoint) -> u64 {
        let index = host.algorithm().watched().iter().position(|value| value.name == "state");
        index.map_or_else(|| host.info().ca_state as u64, |index| self.next[index])
    }

    /// Adds the rows to the table, with a column for each watched value of the algorithm.
    pub(crate) fn write(self, id: FlowId<'_>, watched: &[Watched], states: &mut States) {
        let Self { rows, values, .. } = self;
        let cells = |index: usize| {
            let cells = values.iter().skip(index).step_by(watched.len());
            cells.map(|value| Some(*value).filter(|value| *value != EMPTY))
        };
        let column = |(index, value): (usize, &Watched)| WatchedColumn {
            name: value.name,
            cells: if value.choices.is_empty() {
                WatchedCells::Numbers(cells(index).collect())
            } else {
                let choices: Vec<Name> = value.choices.iter().map(|choice| (*choice).into()).collect();
                WatchedCells::Names(cells(index).map(|cell| choices.get(cell? as usize).cloned()).collect())
            },
        };
        let columns = watched.iter().enumerate().map(column).collect();
        let of_flow = |row| StateRow { run: id.run, flow: id.flow.clone(), leg: id.leg, ..row };
        states.add(rows.into_iter().map(of_flow), columns);
    }
}
