//! Analyses of captures.

use std::collections::BTreeMap;
use std::path::PathBuf;

use perigee_analyze::{analyze, Analysis, AnalyzeError, Options, Part, Source};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::callback::Callback;
use crate::errors::input_error;
use crate::tables::{to_python, with_rows, Stream};

/// Counts over the files of a capture, see `perigee_analyze::Analysis` and its counts.
///
/// `tunnelled` is packets by the name of what carried them; `cut_off` those that were cut off and the most bytes of one;
/// `unknown_link` is the frames of a link type that is not known, and that type; `broken` has of each damaged file its
/// name, the byte and the reason.
#[pyclass(frozen, get_all, module = "perigee._core")]
#[derive(Clone)]
pub(crate) struct CaptureCounts {
    frames: u64,
    not_ip: u64,
    other: u64,
    fragments: u64,
    joined_fragments: u64,
    tunnelled: BTreeMap<String, u64>,
    tunnelled_cut_off: u64,
    cut_off: (u64, usize),
    unknown_link: Option<(u64, u16)>,
    broken: Vec<(String, u64, String)>,
    disordered: u64,
    clock_jumps: u64,
    first_unix_s: f64,
    length_s: f64,
    connections: u64,
    udp: u64,
    quic: Vec<(&'static str, u64)>,
    measured: u64,
    other_payload_bytes: u64,
    one_way: u64,
    unseen_flows: u64,
    unlike: u64,
    pushed_out: u64,
    rows_left_out: u64,
    segments_left_out: u64,
}

impl From<&Analysis> for CaptureCounts {
    fn from(analysis: &Analysis) -> Self {
        let counts = &analysis.counts;
        let broken = counts.broken.iter().map(|(file, broken)| (file.clone(), broken.offset, broken.why.clone()));
        Self {
            frames: counts.frames,
            not_ip: counts.not_ip,
            other: counts.other,
            fragments: counts.fragments,
            joined_fragments: counts.joined_fragments,
            tunnelled: counts.tunnelled.iter().map(|(name, packets)| ((*name).to_owned(), *packets)).collect(),
            tunnelled_cut_off: counts.tunnelled_cut_off,
            cut_off: counts.cut_off,
            unknown_link: counts.unknown_link,
            broken: broken.collect(),
            disordered: counts.disordered,
            clock_jumps: counts.clock_jumps,
            first_unix_s: counts.first_ns as f64 / 1e9,
            length_s: counts.length.as_secs_f64(),
            connections: analysis.connections,
            udp: analysis.udp,
            quic: analysis.quic.clone(),
            measured: analysis.measured,
            other_payload_bytes: analysis.other_payload_bytes,
            one_way: analysis.one_way,
            unseen_flows: analysis.unseen_flows,
            unlike: analysis.unlike,
            pushed_out: analysis.pushed_out,
            rows_left_out: analysis.rows_left_out,
            segments_left_out: analysis.segments_left_out,
        }
    }
}

/// Analyses captures, each given by its name and its files, as `perigee_analyze::analyze` does; `startup` and `steady` may
/// be `off`. `progress` is called with the share done and returns whether to continue.
///
/// Returns the tables of each capture as `Plan.run` does, and the counts of its files; `None` if `progress` stopped it.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments, reason = "called by Python, with owned values")]
pub(crate) fn analyze_captures(
    py: Python<'_>,
    sources: Vec<(String, Vec<PathBuf>)>,
    study: String,
    series: String,
    startup: String,
    steady: String,
    most: usize,
    sequences: usize,
    progress: Py<PyAny>,
) -> PyResult<Option<Vec<Captured<'_>>>> {
    let options = Options::read(&series, &startup, &steady, most, sequences).map_err(|error| input_error(&error))?;
    let source =
        |(name, parts): (String, Vec<PathBuf>)| Source { name, parts: parts.into_iter().map(Part::File).collect() };
    let sources: Vec<_> = sources.into_iter().map(source).collect();
    let mut callback = Callback::new(progress);
    let done = py.detach(|| {
        let analyses = analyze(&sources, &study, &options, &mut |share| callback.progress(share))?;
        Ok(analyses.iter().map(|analysis| (streams(analysis), CaptureCounts::from(analysis))).collect::<Vec<_>>())
    });
    callback.finish()?;
    let analyses = match done {
        Ok(analyses) => analyses,
        Err(AnalyzeError::Cancelled) => return Ok(None),
        Err(error) => return Err(input_error(&error)),
    };
    let given = analyses.into_iter().map(|(tables, counts)| Ok((to_python(py, tables)?, counts)));
    given.collect::<PyResult<Vec<_>>>().map(Some)
}

/// The tables of a capture, and what was met in its files.
type Captured<'py> = (Bound<'py, PyDict>, CaptureCounts);

fn streams(analysis: &Analysis) -> Vec<Stream> {
    with_rows(analysis.tables.all().into_iter().chain(analysis.captured.all()))
}
