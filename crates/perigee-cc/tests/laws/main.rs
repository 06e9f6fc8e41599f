//! Laws of the congestion controls: their decisions against the formulas of their papers.
//!
//! `rounds` calls an algorithm as a host does, ACK by ACK; `path` carries out transfers with the simulator's TCP and links.

mod bbr3;
mod bic;
mod compound;
mod copa;
mod dctcp;
mod fast;
mod fixed_point;
mod highspeed;
mod highspeed_response;
mod htcp;
mod hybla;
mod illinois;
mod ledbat_pp;
mod operations;
mod path;
mod rates;
mod response;
mod rounds;
mod sicc;
mod slow_start;
mod vegas;
mod vivace;
mod westwood;
mod westwood_plus;
mod windows;

/// Asserts that `actual` is within `percent` of `expected`.
#[track_caller]
fn near(actual: f64, expected: f64, percent: f64) {
    let error = (actual - expected).abs() / expected.abs().max(1e-9) * 100.0;
    assert!(error <= percent, "{actual} is {error:.2} % from {expected}, more than {percent} %");
}
