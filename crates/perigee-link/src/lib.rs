//! A network link as a state machine without a clock, randomness or files of its own.
//!
//! A [`Link`] is one direction: a queue, a server, and the path behind it. The driver offers packets at instants and gets their delivery
//! times. A [`LinkSpec`] describes a link. `perigee-study` reads the text form of links, profiles and recordings.

#![allow(clippy::inline_always, reason = "each is on the path of every packet, whose instructions are counted")]

mod acm;
mod air;
mod body;
mod chain;
mod clock;
mod counted;
mod counters;
mod dark;
mod delay;
mod ecn;
mod lease;
mod link;
mod loss;
mod modcods;
mod packet;
mod queue;
mod sample;
mod server;
mod slots;
mod spec;
mod states;
mod steps;
mod tdma;
mod wander;

pub use acm::{Acm, RainFade};
pub use body::Body;
pub use counted::{CountedDrop, CountedSpan};
pub use counters::{Counters, Held};
pub use delay::{DelaySpec, Jitter, Loaded, Tail, TailShape};
pub use ecn::EcnTreatment;
pub use link::{Delivery, DroppedPacket, Exit, Link, Offered, Transit};
pub use loss::LossSpec;
pub use packet::{DropReason, Ecn, Packet};
pub use queue::{red_weight, AqmSpec, CodelSpec, DualPi2Spec, Full, PieSpec, QueueSpec, RedSpec, RedThresholds};
pub use sample::{sample, Course, Sample};
pub use server::{Fluctuation, RateSpec};
pub use slots::{
    BusyHours, Grants, LogNormal, OrbitDelay, Shaping, SlotClock, SlotDelay, SlotJitter, SlotLoss, SlotOutage,
    SlotRate, Spike,
};
pub use spec::LinkSpec;
pub use states::LinkState;
pub use steps::Steps;
pub use tdma::{Follows, Requests, TdmaSpec, TerminalOf};
