//! What another program saw of flows, as JSON, made into the tables of results.

use perigee_measure::{empty_row, write_observed, Observed, SenderSample};
use perigee_study::results::{FlowRow, Outcome, Tables};
use perigee_study::{Amount, Measure, Startup};
use perigee_units::{Bytes, Ratio, Time};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;

use crate::{columns, to_python};

/// A flow and all that is known of it.
#[derive(Deserialize)]
struct Flow {
    about: About,
    measure: Span,
    seen: Seen,
}

/// The part of a row that does not come from measuring.
#[derive(Deserialize)]
struct About {
    study: String,
    engine: String,
    run: u32,
    round: u32,
    seed: u64,
    point: String,
    flow: String,
    kind: String,
    from_node: String,
    to_node: String,
    cc: String,
    cc_params: String,
    /// One of the words of [`Outcome`].
    outcome: String,
    handshake_ms: Option<f64>,
    lost_packets: Option<u64>,
    jitter_ms: Option<f64>,
}

/// What is to be measured; times in ns.
#[derive(Deserialize)]
struct Span {
    series_ns: Option<u64>,
    startup_bytes: Option<u64>,
    startup_ns: Option<u64>,
    steady: Option<f64>,
    goodput_bin_ns: u64,
    rtt_bin_ns: Option<u64>,
    milestones: Vec<u64>,
}

/// What was seen; times in ns since the flow began.
#[derive(Deserialize)]
struct Seen {
    start_ns: u64,
    duration_ns: u64,
    size: Option<u64>,
    length_ns: Option<u64>,
    /// Instant and payload so far.
    arrivals: Vec<(u64, u64)>,
    samples: Vec<Sample>,
    segment: Option<u64>,
    sent_packets: Option<u64>,
    retransmitted_packets: Option<u64>,
}

/// Instant, packets sent again so far, congestion window in packets, smoothed round trip in ns.
type Sample = (u64, Option<u64>, Option<u32>, Option<u64>);

/// Tables of flows that another program saw: a JSON array of `about`, `measure` and `seen`, as `perigee/observed.py`
/// writes it. What comes back is as of `Plan.run`.
#[pyfunction]
pub(crate) fn observed<'py>(py: Python<'py>, flows: &str) -> PyResult<Bound<'py, PyDict>> {
    let flows: Vec<Flow> = serde_json::from_str(flows).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut tables = Tables::default();
    for flow in flows {
        write_observed(flow.about.row()?, &flow.seen.observed(), &flow.measure.measure(), &mut tables);
    }
    to_python(py, columns(&tables))
}

impl About {
    fn row(self) -> PyResult<FlowRow> {
        let unknown = || PyValueError::new_err(format!("no outcome is called `{}`", self.outcome));
        let outcome = Outcome::parse(&self.outcome).ok_or_else(unknown)?;
        let mut row = FlowRow {
            study: self.study.into(),
            engine: self.engine.into(),
            round: self.round,
            seed: self.seed,
            point: self.point.into(),
            kind: self.kind.into(),
            from_node: self.from_node.into(),
            to_node: self.to_node.into(),
            cc: self.cc.into(),
            cc_params: self.cc_params.into(),
            handshake_ms: self.handshake_ms,
            lost_packets: self.lost_packets,
            jitter_ms: self.jitter_ms,
            ..empty_row(self.run, self.flow.into())
        };
        row.set_outcome(outcome);
        Ok(row)
    }
}

impl Span {
    fn measure(&self) -> Measure {
        let by_bytes = self.startup_bytes.map(|size| Startup::Bytes(Bytes::new(size)));
        Measure {
            series: self.series_ns.map(Time::from_nanos),
            startup: by_bytes.or(self.startup_ns.map(|ns| Startup::Time(Time::from_nanos(ns)))),
            steady: self.steady.and_then(Ratio::new),
            goodput_bin: Time::from_nanos(self.goodput_bin_ns),
            rtt_bin: self.rtt_bin_ns.map(Time::from_nanos),
            milestones: self.milestones.iter().copied().map(Bytes::new).collect(),
            events: false,
            pcap: Vec::new(),
        }
    }
}

impl Seen {
    fn observed(self) -> Observed {
        let by_size = self.size.map(|size| Amount::Size(Bytes::new(size)));
        let samples = self.samples.into_iter().map(|(at, retransmitted, cwnd_packets, srtt)| SenderSample {
            at: Time::from_nanos(at),
            retransmitted,
            cwnd_packets,
            srtt: srtt.map(Time::from_nanos),
        });
        Observed {
            start: Time::from_nanos(self.start_ns),
            duration: Time::from_nanos(self.duration_ns),
            amount: by_size.or(self.length_ns.map(|ns| Amount::Duration(Time::from_nanos(ns)))),
            arrivals: self.arrivals.into_iter().map(|(at, bytes)| (Time::from_nanos(at), bytes)).collect(),
            samples: samples.collect(),
            segment: self.segment,
            sent_packets: self.sent_packets,
            retransmitted_packets: self.retransmitted_packets,
        }
    }
}
