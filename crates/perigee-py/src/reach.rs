//! Whether the buffers of a study let its bulk transfers fill their paths.

use perigee_units::Bytes;
use pyo3::prelude::*;

/// A connection of a bulk transfer, see `perigee_study::Reach`: sizes in bytes, round trip in s.
#[pyclass(frozen, get_all, module = "perigee._core")]
pub(crate) struct Reach {
    flow: String,
    sender: String,
    wmem: (u64, u64, u64),
    receiver: String,
    rmem: (u64, u64, u64),
    rate_bps: f64,
    rtt_s: f64,
}

impl From<perigee_study::Reach> for Reach {
    fn from(reach: perigee_study::Reach) -> Self {
        let sizes = |[least, first, most]: [Bytes; 3]| (least.as_u64(), first.as_u64(), most.as_u64());
        Self {
            flow: reach.flow.to_string(),
            sender: reach.sender.to_string(),
            wmem: sizes(reach.wmem),
            receiver: reach.receiver.to_string(),
            rmem: sizes(reach.rmem),
            rate_bps: reach.rate_bps,
            rtt_s: reach.round_trip.as_secs_f64(),
        }
    }
}
