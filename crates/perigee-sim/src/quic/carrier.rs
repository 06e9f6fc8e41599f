//! A flow over QUIC as what carries it sees it, and what carries it as the flow does.

use perigee_quic::{Ecn, Keys};
use perigee_results::{FlowId, FlowRow, Meter, Outcome, SeriesRow, Tables};
use perigee_traffic::End;
use perigee_units::Time;

use crate::world::LegEnd;

/// An end of one of a flow's connections.
pub type Place = LegEnd;

/// Carries the datagrams of a flow's connections, and wakes it.
pub trait Carrier {
    /// Makes room for the connection of this number; a flow makes room for each once.
    fn add_connection(&mut self, number: u32);

    /// Sends a datagram of an end. Returns whether it is counted as under way until [`QuicFlow::arrived`] or [`QuicFlow::dropped`].
    fn send(&mut self, now: Time, from: Place, datagram: &[u8], ecn: Ecn) -> bool;

    /// Sets when to wake the flow, in place of the time before; [`Time::MAX`]: never.
    fn wake(&mut self, what: Wake, at: Time);

    /// The flow has ended; its connections may still have something to say to each other.
    fn flow_ended(&mut self, now: Time);
}

/// Why a flow is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// For the timers of an end: [`QuicFlow::on_timer`].
    Timer(Place),
    /// For the applications of the connection of this number: [`QuicFlow::on_wait`].
    Wait(u32),
    /// For the flow: [`QuicFlow::on_instant`].
    Instant,
}

/// Makes real keys.
pub trait MakeKeys {
    /// Keys of a new client, and of a server that knows it, which takes early data or refuses them.
    fn keys(&self, takes_early_data: bool) -> [Keys; 2];
}

/// A flow over QUIC. [`crate::quic::start`] begins it; it is then woken at once, by [`QuicFlow::on_instant`].
pub trait QuicFlow {
    /// A datagram has arrived at an end; [`QuicFlow::turn`] is due.
    fn arrived(&mut self, now: Time, at: Place, datagram: &[u8], ecn: Ecn);

    /// Lets the applications act, and sends, after something has arrived at an end.
    fn turn(&mut self, now: Time, at: Place, carrier: &mut dyn Carrier);

    /// A datagram of the connection of this number has been dropped.
    fn dropped(&mut self, now: Time, connection: u32);

    /// The timer of an end fires.
    fn on_timer(&mut self, now: Time, at: Place, carrier: &mut dyn Carrier);

    /// The applications of a connection have something to do.
    fn on_wait(&mut self, _now: Time, _connection: u32, _carrier: &mut dyn Carrier) {}

    /// The flow starts, or an instant has come that an application or the meter waits for.
    fn on_instant(&mut self, now: Time, carrier: &mut dyn Carrier);

    /// The row of the series that ends at `now`.
    fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow>;

    /// The measurements so far.
    fn meter(&self) -> &Meter;

    /// The run ends, and the flow with it, incomplete.
    fn cut_off(&mut self, now: Time, outcome: Outcome);

    /// Progress, from 0 to 1.
    fn progress(&self, now: Time) -> f64;

    /// Datagrams under way, as far as they are counted.
    fn outstanding(&self) -> u64;

    /// An end whose timer is due at the time given here, and later or never by `due`.
    fn missed_timer(&self, due: &dyn Fn(Place) -> Option<Time>) -> Option<Time>;

    /// The logs of its ends at the nodes that keep them, with what distinguishes their connections; before [`QuicFlow::write`].
    fn take_qlogs(&mut self) -> Vec<(End, String, Vec<u8>)>;

    /// Adds the flow to the tables; `row` has its description. A flow that has not ended by `stop` ends then.
    fn write(&mut self, row: FlowRow, stop: Time, tables: &mut Tables);
}
