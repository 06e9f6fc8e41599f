//! Measures flows that other programs observed: the tables of results come out.

use perigee_results::{write_observation, Amount, FlowRow, Observation, Outcome, SenderSample, Startup, Tables};
use perigee_units::{Bytes, Ratio, Time};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::tables::{streams, to_python};

/// The measurements of a flow, by default those of a study that names none; times in ns, sizes in bytes.
///
/// No `series_ns`: no series. The startup phase ends after `startup_bytes` or `startup_ns`; neither: there is none. The
/// steady phase is the last share `steady`. No `rtt_bin_ns`: no round trip table. `milestones` grow.
#[pyclass(frozen, module = "perigee._core")]
#[derive(Clone)]
pub(crate) struct Measure(pub(crate) perigee_results::Measure);

#[pymethods]
impl Measure {
    #[new]
    #[pyo3(signature = (
        *, series_ns=Some(1_000_000_000), startup_bytes=None, startup_ns=None, steady=Some(0.5),
        goodput_bin_ns=1_000_000_000, rtt_bin_ns=Some(1_000_000), milestones=Vec::new()
    ))]
    fn new(
        series_ns: Option<u64>,
        startup_bytes: Option<u64>,
        startup_ns: Option<u64>,
        steady: Option<f64>,
        goodput_bin_ns: u64,
        rtt_bin_ns: Option<u64>,
        milestones: Vec<u64>,
    ) -> Self {
        let by_bytes = startup_bytes.map(|size| Startup::Bytes(Bytes::new(size)));
        Self(perigee_results::Measure {
            series: series_ns.map(Time::from_nanos),
            startup: by_bytes.or(startup_ns.map(|ns| Startup::Time(Time::from_nanos(ns)))),
            steady: steady.and_then(Ratio::new),
            goodput_bin: Time::from_nanos(goodput_bin_ns),
            rtt_bin: rtt_bin_ns.map(Time::from_nanos),
            milestones: milestones.into_iter().map(Bytes::new).collect(),
            ..perigee_results::Measure::default()
        })
    }

    /// Interval of the series.
    #[getter]
    fn series_ns(&self) -> Option<u64> {
        self.0.series.map(Time::as_nanos)
    }

    /// Bin of the goodput's percentiles.
    #[getter]
    fn goodput_bin_ns(&self) -> u64 {
        self.0.goodput_bin.as_nanos()
    }
}

/// The part of a row that is not measured, by the attributes of `perigee.analysis.observations.FlowDescription`.
#[derive(FromPyObject)]
pub(crate) struct FlowDescription {
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

/// Another program's observations, by the attributes of `perigee.analysis.observations.Observation`; times in ns since
/// the flow began.
#[derive(FromPyObject)]
pub(crate) struct Observed {
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

/// Tables of flows that another program observed: of each its description, what to measure, and the observation. What
/// comes back is as of `Plan.run`.
#[pyfunction]
pub(crate) fn observed<'py>(
    py: Python<'py>,
    flows: Vec<(FlowDescription, PyRef<'py, Measure>, Observed)>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut tables = Tables::default();
    for (description, measure, observed) in flows {
        write_observation(description.row()?, &observed.observation(), &measure.0, &mut tables);
    }
    to_python(py, streams(&tables))
}

impl FlowDescription {
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
            ..FlowRow::new(self.run, self.flow.into())
        };
        row.set_outcome(outcome);
        Ok(row)
    }
}

impl Observed {
    fn observation(self) -> Observation {
        let by_size = self.size.map(|size| Amount::Size(Bytes::new(size)));
        let samples = self.samples.into_iter().map(|(at, retransmitted, cwnd_packets, srtt)| SenderSample {
            at: Time::from_nanos(at),
            retransmitted,
            cwnd_packets,
            srtt: srtt.map(Time::from_nanos),
        });
        Observation {
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
