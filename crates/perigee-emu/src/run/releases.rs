//! Rows of how late packets left.

use perigee_results::{Name, ReleaseRow, Tables};
use perigee_study::Run;
use perigee_units::Time;

use crate::link::driver::LinkReport;

/// Adds the lateness of each link's departures.
pub(crate) fn write_releases(run: &Run, reports: &[LinkReport], tables: &mut Tables) {
    for (link, report) in run.scenario.links.iter().zip(reports) {
        let late = [report.lateness_p50, report.lateness_p99, report.lateness_max];
        tables.releases.push(release_row(run, &link.name, report.released, late));
    }
}

/// A row of how late packets left, from the median of their lateness, its 99th percentile and the largest.
pub(crate) fn release_row(run: &Run, link: &Name, released_packets: u64, late: [Time; 3]) -> ReleaseRow {
    let [late_p50_us, late_p99_us, late_max_us] = late.map(|time| time.as_nanos() as f64 * 1e-3);
    ReleaseRow { run: run.index, link: link.clone(), released_packets, late_p50_us, late_p99_us, late_max_us }
}
