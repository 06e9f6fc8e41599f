//! Specification of one direction of a link, process by process.

use std::sync::Arc;

use perigee_units::{encode_struct, Bytes, Rate, Time};

use crate::{DelaySpec, EcnTreatment, LinkState, Loaded, LossSpec, QueueSpec, RateSpec};

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// The queue.
    pub queue: QueueSpec,
    /// The rate.
    pub rate: RateSpec,
    /// The propagation delay.
    pub delay: DelaySpec,
    /// Additional delay under load.
    pub loaded: Option<Loaded>,
    /// Loss processes; a packet is lost if any of them loses it, after it has used queue and rate. Each has its own random stream by index,
    /// so an additional process does not affect the draws of those before it.
    pub loss: Vec<LossSpec>,
    /// States that change rate, delay and loss together; one alone holds all the time, and an empty list is none.
    pub states: Option<Arc<Vec<LinkState>>>,
    /// Token bucket: bytes that may leave at once after an idle period. With zero, every packet takes its time at the rate.
    pub burst: Bytes,
    /// Overhead per packet beyond its IP size (14 bytes for Ethernet), counted in rate, queue and burst.
    pub overhead: u32,
    /// The treatment of the ECN field.
    pub ecn: EcnTreatment,
}

impl LinkSpec {
    /// A link with constant rate and delay, an unlimited queue and no loss.
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
            states: None,
            burst: Bytes::ZERO,
            overhead: 0,
            ecn: EcnTreatment::Pass,
        }
    }

    /// The states, of which there is one or more.
    pub(crate) fn any_states(&self) -> Option<&Arc<Vec<LinkState>>> {
        self.states.as_ref().filter(|states| !states.is_empty())
    }
}

encode_struct!(LinkSpec { queue, rate, delay, loaded, loss, states, burst, overhead, ecn });
