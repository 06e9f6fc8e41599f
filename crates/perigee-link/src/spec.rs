//! What a link is made of, as data: one direction of a link, process by process.

use perigee_units::{encode_struct, Bytes, Rate, Time};

use crate::{DelaySpec, Loaded, LossSpec, QueueSpec, RateSpec};

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// What waits and what is refused.
    pub queue: QueueSpec,
    /// How fast it sends.
    pub rate: RateSpec,
    /// How long the air takes.
    pub delay: DelaySpec,
    /// Delay that is added while the link is loaded.
    pub loaded: Option<Loaded>,
    /// Loss processes of the air; a packet is lost where any of them takes it. It has used queue and rate by then.
    /// Each has a stream of its own by its place: a further one leaves the draws of those before it as they are.
    pub loss: Vec<LossSpec>,
    /// Token bucket: that many bytes leave at once after an idle time. Zero: each packet takes its time at the rate.
    pub burst: Bytes,
    /// Bytes each packet has on this link beyond its IP size (14 for Ethernet); they count in rate, queue and burst.
    pub overhead: u32,
}

impl LinkSpec {
    /// A link of constant rate and delay, with a queue without limit and no loss.
    ///
    /// ```
    /// use perigee_link::LinkSpec;
    /// use perigee_units::{Rate, Time};
    /// let spec = LinkSpec::constant(Rate::from_mbps(100.0), Time::from_millis(300));
    /// assert!(spec.loss.is_empty());
    /// ```
    pub fn constant(rate: Rate, delay: Time) -> Self {
        Self {
            queue: QueueSpec::default(),
            rate: RateSpec::Constant(rate),
            delay: DelaySpec::Constant(delay),
            loaded: None,
            loss: Vec::new(),
            burst: Bytes::ZERO,
            overhead: 0,
        }
    }
}

encode_struct!(LinkSpec { queue, rate, delay, loaded, loss, burst, overhead });
