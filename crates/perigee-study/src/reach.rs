//! Whether the socket buffers of a study let bulk transfers fill their paths.

use perigee_results::{Amount, Name};
use perigee_traffic::App;
use perigee_units::{Bytes, Time};

use crate::run::{FlowSpec, Scenario, Traffic};
use crate::transport::Leg;

/// A connection of a bulk transfer that is longer than its path holds, and the buffers that bound its window.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    /// Name of the flow.
    pub flow: Name,
    /// The node that sends the data.
    pub sender: Name,
    /// Its send buffer: minimum, initial, maximum.
    pub wmem: [Bytes; 3],
    /// The node that receives the data.
    pub receiver: Name,
    /// Its receive buffer: minimum, initial, maximum.
    pub rmem: [Bytes; 3],
    /// Mean rate of the slowest link for this connection, where all bulk transfers over a link have equal shares, bit/s.
    pub rate_bps: f64,
    /// Round trip of the path without queues.
    pub round_trip: Time,
}

/// The ways of one connection, and the buffers at its ends.
type Connection<'a> = ([u32; 2], [&'a [u32]; 2], [[Bytes; 3]; 2]);

impl Scenario {
    /// The connections of bulk transfers whose applications write as fast as they may; each leg of a split flow is one. None where paths
    /// are real, whose links are not known.
    pub fn reaches(&self) -> Vec<Reach> {
        if self.links.is_empty() {
            return Vec::new();
        }
        let mut sharing = vec![0_u32; self.links.len()];
        let bulk: Vec<_> = self.flows.iter().filter_map(|flow| Some((flow, greedy(flow)?))).collect();
        for (flow, _) in &bulk {
            flow.forward.iter().for_each(|link| sharing[*link as usize] += 1);
        }
        let of_flow = |(flow, amount): &(&FlowSpec, Amount)| -> Vec<Reach> {
            connections(flow).filter_map(|connection| self.reach(&flow.name, *amount, connection, &sharing)).collect()
        };
        bulk.iter().flat_map(of_flow).collect()
    }

    fn reach(&self, flow: &Name, amount: Amount, connection: Connection<'_>, sharing: &[u32]) -> Option<Reach> {
        let ([from, to], [forward, back], [wmem, rmem]) = connection;
        let share = |link: &u32| {
            let number = *link as usize;
            self.links[number].spec.rate.mean_bps() / f64::from(sharing[number].max(1))
        };
        let rate_bps = forward.iter().map(share).reduce(f64::min)?;
        let delays = forward.iter().chain(back).map(|link| self.links[*link as usize].spec.delay.typical());
        let round_trip: Time = delays.sum();
        let product = rate_bps * round_trip.as_secs_f64() / 8.0;
        let is_short = matches!(amount, Amount::Size(size) if (size.as_u64() as f64) < product);
        let name = |node: u32| self.nodes[node as usize].clone();
        let (sender, receiver) = (name(from), name(to));
        (!is_short).then(|| Reach { flow: flow.clone(), sender, wmem, receiver, rmem, rate_bps, round_trip })
    }
}

/// The amount of a bulk transfer without a rate of its own.
fn greedy(flow: &FlowSpec) -> Option<Amount> {
    match &flow.traffic {
        Traffic::Tcp { app: App::Bulk(bulk), .. } if bulk.offered.is_empty() => Some(bulk.amount),
        _ => None,
    }
}

fn connections(flow: &FlowSpec) -> impl Iterator<Item = Connection<'_>> {
    let tcp = flow.traffic.tcp();
    let legs = tcp.map_or(&[][..], |tcp| &tcp.legs);
    let whole = tcp.filter(|_| legs.is_empty()).map(|tcp| -> Connection<'_> {
        ([flow.from, flow.to], [&flow.forward, &flow.back], [tcp.from.wmem, tcp.to.rmem])
    });
    whole.into_iter().chain(legs.iter().map(of_leg))
}

fn of_leg(leg: &Leg) -> Connection<'_> {
    let Leg { from, to, forward, back, sender, receiver, .. } = leg;
    ([*from, *to], [forward, back], [sender.config.wmem, receiver.config.rmem])
}
