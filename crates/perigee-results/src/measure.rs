//! The settings of measuring: which series, phases, bins and logs the tables of a run have.

use perigee_units::{encode_enum, encode_struct, Bytes, Ratio, Time};

/// The settings of measuring; by default nothing is measured beyond totals and means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measure {
    /// Interval of `series` and `links`; none: neither is written.
    pub series: Option<Time>,
    /// Where a flow's startup phase ends; none: it has no such phase.
    pub startup: Option<Startup>,
    /// The steady phase: this last share of the bytes of a flow with a size, of the time of a flow with a duration.
    pub steady: Option<Ratio>,
    /// Bin of the goodput's percentiles.
    pub goodput_bin: Time,
    /// Width of the round trip bins; none: no `rtt` table.
    pub rtt_bin: Option<Time>,
    /// Delivered sizes whose times are written, growing.
    pub milestones: Vec<Bytes>,
    /// Whether to write the TCP log.
    pub events: bool,
    /// Numbers of the nodes that capture their packets.
    pub pcap: Vec<u32>,
}

/// Where a startup phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Startup {
    /// When so much has been delivered.
    Bytes(Bytes),
    /// So long after the flow began.
    Time(Time),
}

/// The extent of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many bytes of payload.
    Size(Bytes),
    /// So much time.
    Duration(Time),
}

encode_struct!(Measure { series, startup, steady, goodput_bin, rtt_bin, milestones, events, pcap });
encode_enum!(Startup { Bytes(bytes), Time(time) });
encode_enum!(Amount { Size(size), Duration(duration) });
