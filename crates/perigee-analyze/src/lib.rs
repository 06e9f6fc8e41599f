//! Analyses captures: reads pcap and pcapng files and fills the tables that every engine fills, and those that only
//! captures have.
//!
//! [`analyze`] reads each capture twice in constant memory: first which connections are in it (`survey`), then what the
//! largest of them did (`measure`), by the meters of `perigee-results`. Captures of the same connections are read side by side between the
//! two (`comparison`). `docs/models/analysis.md` defines the figures.

mod blocks;
mod candidates;
mod carriers;
mod clock;
mod comparison;
mod compression;
mod datagrams;
mod delays;
mod error;
mod file;
mod flow;
mod found;
mod fragments;
mod frame;
mod key;
mod measure;
mod pairs;
mod quic;
mod rounds;
mod sequence_history;
mod side;
mod stream;
mod survey;
mod trace;
mod tunnel;
mod vantage;

use std::ops::ControlFlow;

use perigee_results::{CaptureTables, Name, Tables};

pub use error::AnalyzeError;
pub use file::Broken;
pub use measure::{OptionError, Options};
pub use stream::{Counts, Part, Source};

/// Result of one capture.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The tables that every engine fills.
    pub tables: Tables,
    /// The tables that only captures have.
    pub captured: CaptureTables,
    /// Counts over the files.
    pub counts: Counts,
    /// Connections in it, UDP included.
    pub connections: u64,
    /// UDP connections.
    pub udp: u64,
    /// Connections of QUIC among them, with the version that their first datagram says.
    pub quic: Vec<(&'static str, u64)>,
    /// Measured connections.
    pub measured: u64,
    /// Payload of connections that were not measured.
    pub other_payload_bytes: u64,
    /// Measured TCP connections of which one direction only is in the capture.
    pub one_way: u64,
    /// Measured flows whose data are not in the capture: their acknowledgements tell what arrived.
    pub unseen_flows: u64,
    /// Connections that were ended because too many were open.
    pub pushed_out: u64,
    /// Connections with the addresses, ports and first sequence numbers of one in another capture, but not its packets.
    pub unlike: u64,
    /// Rows of the series beyond the limit, which were omitted.
    pub rows_left_out: u64,
    /// Rows of the time sequences beyond the limit, which were omitted.
    pub segments_left_out: u64,
}

/// Analyses captures; each is a run of the tables, in the order given. `study` is the name that the rows have.
///
/// `progress` receives the share done a few times a second, and returns whether to go on.
///
/// # Errors
/// If a file cannot be read, is no capture, or has neither TCP nor UDP in it, or if `progress` says so.
pub fn analyze(
    sources: &[Source],
    study: &str,
    options: &Options,
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<Vec<Analysis>, AnalyzeError> {
    let sizes: Vec<u64> = sources.iter().map(size).collect();
    let study: Name = study.into();
    let mut done = 0;
    // Whether there are pairs is known after the first reading only.
    let mut total = sizes.iter().sum::<u64>().max(1) * READINGS;
    let mut surveys = Vec::with_capacity(sources.len());
    for (source, size) in sources.iter().zip(&sizes) {
        let mut watch = |read: u64| progress(share(done + read, total));
        let survey = survey::survey(source, options.most, &mut watch)?;
        check(source, &survey)?;
        surveys.push(survey);
        done += size;
    }
    let candidates = candidates::find(&surveys);
    total += candidates.iter().flat_map(|pair| pair.captures).map(|capture| sizes[capture]).sum::<u64>();
    let mut compared = Vec::with_capacity(candidates.len());
    for pair in &candidates {
        let mut watch = |read: u64| progress(share(done + read, total));
        compared.push(pairs::compared(pair, sources, &surveys, &mut watch)?);
        done += pair.captures.map(|capture| sizes[capture]).iter().sum::<u64>();
    }
    for pair in &compared {
        pair.settle_sides(&mut surveys);
    }
    let mut measured = Vec::with_capacity(sources.len());
    for (run, ((source, survey), size)) in (0..).zip(sources.iter().zip(&surveys).zip(&sizes)) {
        let mut watch = |read: u64| progress(share(done + read, total));
        measured.push(measure::measure(source, survey, options, (&study, run), &mut watch)?);
        done += size;
    }
    for pair in &compared {
        pair.write(&mut measured);
    }
    let unlike =
        |capture: usize| compared.iter().filter(|pair| pair.has(capture)).map(|pair| pair.unlike).max().unwrap_or(0);
    let analyses = (0..).zip(surveys).zip(measured).map(|((capture, survey), measured)| Analysis {
        unlike: unlike(capture),
        one_way: survey.chosen.iter().filter(|summary| !summary.key.is_udp() && summary.is_one_way()).count() as u64,
        unseen_flows: measured.unseen_flows,
        tables: measured.tables,
        captured: measured.captured,
        connections: survey.connections,
        udp: survey.udp,
        quic: quic::VERSIONS.iter().zip(survey.quic).map(|((_, name), count)| (*name, count)).collect(),
        measured: survey.chosen.len() as u64,
        other_payload_bytes: survey.other_payload,
        pushed_out: survey.pushed_out,
        rows_left_out: measured.rows_left_out,
        segments_left_out: measured.segments_left_out,
        counts: survey.counts,
    });
    Ok(analyses.collect())
}

fn share(done: u64, total: u64) -> f64 {
    (done as f64 / total as f64).min(1.0)
}

/// Bytes of a capture's files.
fn size(source: &Source) -> u64 {
    source.parts.iter().map(stream::Part::size).sum()
}

/// Says why there is nothing to measure.
fn check(source: &Source, survey: &survey::Survey) -> Result<(), AnalyzeError> {
    if !survey.chosen.is_empty() {
        return Ok(());
    }
    let (counts, file) = (&survey.counts, source.name.clone());
    if let Some((_, broken)) = counts.broken.first().filter(|_| counts.frames == 0) {
        let why = format!("damaged at byte {}: {}", broken.offset, broken.why);
        return Err(AnalyzeError::NotACapture { file, why });
    }
    if let Some((_, link)) = counts.unknown_link.filter(|(frames, _)| *frames == counts.frames) {
        return Err(AnalyzeError::UnknownLink { file, link, name: frame::link_name(link) });
    }
    if let (packets @ 1.., bytes) = counts.cut_off {
        return Err(AnalyzeError::CutOff { file, packets, bytes });
    }
    let said =
        format!("{} packets, {} of them not IP and {} of other protocols", counts.frames, counts.not_ip, counts.other);
    Err(AnalyzeError::NoTraffic { file, said })
}

/// Passes over a capture; another one follows for each capture with the same connections.
const READINGS: u64 = 2;
