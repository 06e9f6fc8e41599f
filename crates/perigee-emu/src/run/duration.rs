//! Estimates the duration of a run.

use perigee_results::Amount;
use perigee_study::{FlowSpec, Run, Scenario};
use perigee_units::Time;

/// Duration of a run if each link carries its flows' data at its mean rate, without loss.
pub(crate) fn least(run: &Run) -> Time {
    let scenario = &*run.scenario;
    let mut bytes = vec![0u64; scenario.links.len()];
    let mut end = 0.0f64;
    for flow in &scenario.flows {
        let start = flow.start_in(run.seed).as_secs_f64();
        let length = flow.traffic.least_s(round_trip_s(scenario, flow));
        let data = match flow.traffic.amount() {
            Amount::Size(size) => size.as_u64(),
            Amount::Duration(_) => 0,
        };
        end = end.max(start + length);
        for link in &flow.forward {
            let link = *link as usize;
            bytes[link] += data;
            let rate = scenario.links[link].spec.rate.mean_bps().max(1.0);
            end = end.max(start + length + data as f64 * 8.0 / rate);
        }
    }
    let shared =
        bytes.iter().zip(&scenario.links).map(|(bytes, link)| *bytes as f64 * 8.0 / link.spec.rate.mean_bps().max(1.0));
    Time::from_secs_f64(shared.fold(end, f64::max))
}

/// Data that flows send over a link.
#[derive(Default)]
pub(crate) struct Busy {
    /// Data of flows with a size, bits.
    sized: f64,
    /// Data of the others, if each takes its rate while it lasts, bits.
    lasting: f64,
    /// When each of the others lasts.
    spans: Vec<(Time, Time)>,
}

impl Busy {
    /// Adds a flow that begins at `begins`, in a run until `limit`, with the rate that it takes.
    pub(crate) fn add(&mut self, amount: Amount, begins: Time, limit: Time, rate_bps: f64) {
        match amount {
            Amount::Size(size) => self.sized += size.as_u64() as f64 * 8.0,
            Amount::Duration(lasts) => {
                let ends = (begins + lasts).min(limit).max(begins);
                self.lasting += rate_bps * (ends - begins).as_secs_f64();
                self.spans.push((begins, ends));
            }
        }
    }

    /// The data that a link of this mean rate carries, bits: no more than it can while any of these flows lasts.
    pub(crate) fn bits(mut self, mean_bps: f64) -> f64 {
        self.spans.sort_unstable();
        let (mut busy, mut until) = (Time::ZERO, Time::ZERO);
        for (begins, ends) in self.spans {
            busy += ends.max(until) - begins.max(until);
            until = until.max(ends);
        }
        self.sized + self.lasting.min(mean_bps * busy.as_secs_f64())
    }
}

fn round_trip_s(scenario: &Scenario, flow: &FlowSpec) -> f64 {
    let least = |steps: &perigee_link::Steps<Time>| steps.iter().map(|(_, delay)| delay).min().unwrap_or_default();
    let delay = |link: &u32| match &scenario.links[*link as usize].spec.delay {
        perigee_link::DelaySpec::Constant(delay) => *delay,
        perigee_link::DelaySpec::Trace(steps) => least(steps),
        perigee_link::DelaySpec::Jitter(jitter) => jitter.base,
        perigee_link::DelaySpec::Slots(slots) => slots.mean,
        other @ (perigee_link::DelaySpec::Orbit(_) | perigee_link::DelaySpec::PerPacket(_)) => other.typical(),
    };
    flow.forward.iter().chain(&flow.back).map(|link| delay(link).as_secs_f64()).sum()
}
