//! Fuzz target of captures. The plain tests of `perigee-analyze` replay the corpus through the
//! same function.

use std::ops::ControlFlow;

use perigee_analyze::{analyze, Options, Part, Source};

/// A capture, and the same beside itself as if taken at two places.
pub(crate) fn capture(data: &[u8]) {
    let source = |name: &str| Source { name: name.to_owned(), parts: vec![Part::Bytes(data.into())] };
    for sources in [vec![source("a")], vec![source("a"), source("b")]] {
        match analyze(&sources, "fuzz", &Options::default(), &mut |_| ControlFlow::Continue(())) {
            Ok(found) => {
                for analysis in found {
                    let flows = analysis.tables.flows;
                    assert!(flows.goodput_mbps.iter().flatten().all(|rate| rate.is_finite()), "a rate that is none");
                    assert!(flows
                        .retransmitted_packets
                        .iter()
                        .zip(&flows.sent_packets)
                        .all(|(a, b)| b.is_none() || a <= b));
                }
            }
            Err(error) => {
                let said = error.to_string();
                assert!(!said.contains('\n') && said.contains("; "), "no fix, or not one line: {said}");
            }
        }
    }
}
