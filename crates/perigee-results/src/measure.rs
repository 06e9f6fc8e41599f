//! The settings of measurements: series, phases, bins and logs in the tables of a run.

use perigee_units::{encode_enum, encode_struct, Bytes, Ratio, Time};

use crate::CaptureRules;

/// The settings of measurements; by default only totals and means are measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measure {
    /// Interval of `series` and `links`; `None`: neither is written.
    pub series: Option<Time>,
    /// End of a flow's startup phase; `None`: it has no such phase.
    pub startup: Option<Startup>,
    /// The steady phase: the last share of the bytes of a flow with a size, or of the time of a flow with a duration.
    pub steady: Option<Ratio>,
    /// Bin of the goodput's percentiles.
    pub goodput_bin: Time,
    /// Width of the round trip bins; none: no `rtt` table.
    pub rtt_bin: Option<Time>,
    /// Delivered sizes whose times are written, in ascending order.
    pub milestones: Vec<Bytes>,
    /// How captures at both ends of a flow's data are read; `None`: their columns stay empty.
    pub capture: Option<CaptureRules>,
    /// Whether to write the TCP log.
    pub events: bool,
    /// Which states of congestion controls are written; `None`: the table `states` stays empty.
    pub states: Option<StatesOf>,
    /// Numbers of the nodes that capture their packets.
    pub pcap: Vec<u32>,
    /// Numbers of the nodes whose ends of QUIC connections keep a log.
    pub qlog: Vec<u32>,
}

/// End of a startup phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Startup {
    /// After this amount of delivered payload.
    Bytes(Bytes),
    /// This long after the start of the flow.
    Time(Time),
}

/// The rows of the table `states`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatesOf {
    /// One whenever the algorithm has changed its `state`.
    Changes,
    /// One for every processed ACK.
    Acknowledgements,
}

/// The extent of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes of payload.
    Size(Bytes),
    /// Time from start to end.
    Duration(Time),
}

encode_struct!(Measure {
    series,
    startup,
    steady,
    goodput_bin,
    rtt_bin,
    milestones,
    capture,
    events,
    states,
    pcap,
    qlog
});
encode_struct!(CaptureRules { first, startup, from, upto, least });
encode_enum!(StatesOf { Changes, Acknowledgements });
encode_enum!(Startup { Bytes(bytes), Time(time) });
encode_enum!(Amount { Size(size), Duration(duration) });
