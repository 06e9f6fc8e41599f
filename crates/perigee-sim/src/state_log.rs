//! The log of a congestion control: a row when its state has changed, or for each ACK.

use perigee_cc::{CaState, Watched, EMPTY};
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
        if !self.is_due(host.algorithm().watched(), || host.info().ca_state) {
            return;
        }
        let info = host.info();
        let row = StateRow {
            cwnd_packets: info.cwnd,
            ssthresh_packets: info.ssthresh,
            pacing_mbps: info.pacing_rate_bps.map(|bps| bps as f64 / 1e6),
            inflight_packets: info.inflight,
            delivered_packets: info.delivered,
            lost_packets: info.lost,
            app_limited: info.app_limited,
            ..StateRow::default()
        };
        self.push(now, rtt, info.ca_state, row);
    }

    /// After an acknowledgement, which gave a round trip, or after any other event of a sender over QUIC, whose algorithm has these
    /// watched values.
    #[cfg(feature = "quic")]
    pub(crate) fn look_at_quic(
        &mut self,
        now: Time,
        rtt: Option<Time>,
        endpoint: &mut perigee_quic::Endpoint,
        watched: &[Watched],
    ) {
        if !endpoint.is_connected() || (rtt.is_none() && self.of == StatesOf::Acknowledgements) {
            return;
        }
        endpoint.watch(&mut self.next);
        let info = endpoint.info();
        let (Some(ca_state), Some(inflight), Some(delivered)) = (info.ca_state, info.inflight, info.delivered) else {
            return;
        };
        if !self.is_due(watched, || ca_state) {
            return;
        }
        let row = StateRow {
            cwnd_packets: info.cwnd,
            ssthresh_packets: info.ssthresh,
            pacing_mbps: info.pacing_rate_bps.map(|bps| bps as f64 / 1e6),
            inflight_packets: inflight,
            delivered_packets: delivered,
            lost_packets: info.lost,
            app_limited: info.app_limited == Some(true),
            ..StateRow::default()
        };
        self.push(now, rtt, ca_state, row);
    }

    /// Whether a row is due: each is, or the algorithm's watched value `state` (without one, the state of the sender) has changed.
    fn is_due(&mut self, watched: &[Watched], ca_state: impl FnOnce() -> CaState) -> bool {
        let index = watched.iter().position(|value| value.name == "state");
        let state = index.map_or_else(|| ca_state() as u64, |index| self.next[index]);
        let has_changed = self.state.replace(state) != Some(state);
        has_changed || self.of != StatesOf::Changes
    }

    fn push(&mut self, now: Time, rtt: Option<Time>, ca_state: CaState, row: StateRow) {
        self.values.extend_from_slice(&self.next);
        let last = self.rows.last().map(|row| &row.ca_state);
        let ca_state = match last.filter(|last| ***last == *ca_state.as_str()) {
            Some(same) => same.clone(),
            None => ca_state.as_str().into(),
        };
        self.rows.push(StateRow { t_s: now.as_secs_f64(), ca_state, rtt_ms: rtt.map(Time::as_millis_f64), ..row });
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
