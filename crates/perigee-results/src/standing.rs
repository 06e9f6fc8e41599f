//! Progress of a run.

use perigee_units::Time;

/// Progress of a run, and bytes received by its flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The completed share of the run, 0 to 1: the mean of its flows.
    pub share: f64,
    /// The time of the run.
    pub now: Time,
    /// Payload delivered in order, bytes, of the first [`Standing::FLOWS`] flows of the study.
    pub received: Vec<u64>,
}

impl Standing {
    /// Maximum number of flows that a figure of throughput can distinguish.
    pub const FLOWS: usize = 16;

    /// The progress at `now`, from the completed share and the received bytes of each flow.
    pub fn new(now: Time, flows: impl ExactSizeIterator<Item = (f64, u64)>) -> Self {
        let count = flows.len().max(1) as f64;
        let (mut shares, mut received) = (0.0, Vec::with_capacity(flows.len().min(Self::FLOWS)));
        for (share, bytes) in flows {
            shares += share;
            if received.len() < Self::FLOWS {
                received.push(bytes);
            }
        }
        Self { share: (shares / count).clamp(0.0, 1.0), now, received }
    }
}

#[cfg(test)]
mod tests {
    use super::{Standing, Time};

    #[test]
    fn the_share_is_the_mean_of_all_flows_and_the_first_ones_have_their_bytes() {
        let flows: Vec<_> = (0..40_u64).map(|number| (f64::from(u8::from(number < 10)), number)).collect();
        let standing = Standing::new(Time::from_secs(3), flows.into_iter());
        assert!((standing.share - 0.25).abs() < 1e-12);
        assert_eq!(standing.received, (0..Standing::FLOWS as u64).collect::<Vec<_>>());
        assert_eq!(
            Standing::new(Time::ZERO, [].into_iter()),
            Standing { share: 0.0, now: Time::ZERO, received: vec![] }
        );
    }
}
