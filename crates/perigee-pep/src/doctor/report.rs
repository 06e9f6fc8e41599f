//! The table of the transfers, the comparison of their bytes, and the conclusion in a sentence.

use std::fmt::Write as _;

use perigee_units::{Bytes, Rate};
use serde_json::{json, Value};

use super::options::Options;
use super::transfer::{Transfer, Via};
use crate::config::{Leg, Rule};
use crate::error::ServiceError;

/// All transfers, each printed when it is done.
#[derive(Debug)]
pub(super) struct Report {
    about: Value,
    /// The rule's leg towards the server.
    leg: Leg,
    as_json: bool,
    transfers: Vec<Transfer>,
}

/// Whether the bytes of all transfers are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sameness {
    /// This many at the beginning are the same in all transfers.
    Same(u64),
    Differ,
    /// Direct transfers differ from each other.
    Changing,
}

impl Report {
    /// An empty report; prints its head.
    pub(super) fn new(options: &Options, rule: &Rule, client: &str) -> Self {
        let Options { target, longest, most, as_json, .. } = options;
        if !as_json {
            println!(
                "{target}, up to {longest} and {most} per transfer: directly with this host's settings, and through a"
            );
            println!("forward inside this command with rule `{}`, as for a client of {client}", rule.name);
            println!();
            println!("{}", line(&HEADS.map(str::to_owned)));
        }
        let about = json!({"target": target.to_string(), "rule": rule.name, "client": client, "leg": rule.server.name});
        Self { about, leg: rule.server.clone(), as_json: *as_json, transfers: Vec::new() }
    }

    /// Adds and prints a transfer.
    pub(super) fn add(&mut self, transfer: Transfer) {
        if !self.as_json {
            println!("{}", line(&transfer.cells()));
        }
        self.transfers.push(transfer);
    }

    /// Prints the conclusion; an error if the proxied bytes differ from the direct ones. `notes` are settings that the kernel
    /// refused.
    pub(super) fn conclude(&self, notes: &[String]) -> Result<(), ServiceError> {
        let of = |way: Via| -> Vec<f64> {
            self.transfers.iter().filter(|one| one.way == way).map(Transfer::goodput_bps).collect()
        };
        let (direct, proxied) = (of(Via::Direct), of(Via::Proxied));
        let least = self.transfers.iter().map(|one| one.fetched.content.bytes()).min().unwrap_or(0);
        let same = self.sameness();
        let verdict = conclusion(&direct, &proxied, least, &self.leg);
        if self.as_json {
            let mut out = self.about.clone();
            out["transfers"] = self.transfers.iter().map(Transfer::as_json).collect();
            out["ratio"] = json!((mean(&direct) > 0.0).then(|| mean(&proxied) / mean(&direct)));
            out["same"] = match same {
                Sameness::Same(_) => json!(true),
                Sameness::Differ => json!(false),
                Sameness::Changing => Value::Null,
            };
            out["compared_bytes"] = json!(if let Sameness::Same(bytes) = same { bytes } else { 0 });
            out["notes"] = json!(notes);
            out["conclusion"] = json!(verdict);
            println!("{out:#}");
        } else {
            println!();
            for note in notes {
                println!("{note}");
            }
            match same {
                Sameness::Same(0) => println!("Too few bytes were received to compare them."),
                Sameness::Same(bytes) => println!("The first {bytes} bytes of all transfers are identical (SHA-256)."),
                Sameness::Differ => {}
                Sameness::Changing => println!("The server sends different bytes each time, which cannot be compared."),
            }
            println!("{}", legend());
            println!("{verdict}");
        }
        if same == Sameness::Differ {
            let fix = "name a file that does not change; if it is one, do not use the proxy, and report it";
            return Err(ServiceError::Transfer(format!(
                "the bytes through the proxy differ from the direct ones; {fix}"
            )));
        }
        Ok(())
    }

    fn sameness(&self) -> Sameness {
        let contents = |way| self.transfers.iter().filter(move |one| one.way == way).map(|one| &one.fetched.content);
        let Some(first) = contents(Via::Direct).next() else { return Sameness::Changing };
        let common = |way| contents(way).try_fold(u64::MAX, |least, one| Some(least.min(first.same(one)?)));
        match (common(Via::Direct), common(Via::Proxied)) {
            (None, _) => Sameness::Changing,
            (Some(_), None) => Sameness::Differ,
            (Some(direct), Some(proxied)) => Sameness::Same(direct.min(proxied)),
        }
    }
}

/// A sentence on the goodputs of both ways, bit/s; `least` is the size of the smallest transfer.
fn conclusion(direct: &[f64], proxied: &[f64], least: u64, leg: &Leg) -> String {
    let mbps = |bps: f64| format!("{:.1} Mbit/s", bps / 1e6);
    if least < SMALL {
        return format!("The file is too small to compare goodputs ({}): name a larger one.", Bytes::new(least));
    }
    let ratio = mean(proxied) / mean(direct);
    let range = |of: &[f64]| of.iter().fold((f64::MAX, 0.0_f64), |(low, high), one| (low.min(*one), high.max(*one)));
    let ((low, high), (other_low, other_high)) = (range(direct), range(proxied));
    if (1.0 - ratio).abs() > ALIKE {
        return if low <= other_high && other_low <= high {
            format!(
                "The rounds differ more than the two ways (means {} and {}): repeat with more --rounds.",
                mbps(mean(direct)),
                mbps(mean(proxied))
            )
        } else {
            format!("The proxy carried {ratio:.1} times the direct goodput.")
        };
    }
    let share = |rate: &Rate| mean(direct) / rate.as_bps() as f64;
    match leg.bandwidth.filter(|rate| share(rate) >= FULL) {
        Some(rate) => format!(
            "The transfer is not limited by TCP: directly it already has {} of the {rate} of leg {}.",
            mbps(mean(direct)),
            leg.name
        ),
        None => format!(
            "The transfer is not limited by this host's TCP ({ratio:.2} times the direct goodput): both ways are limited by the \
             server or the path."
        ),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The legend of the table.
fn legend() -> &'static str {
    "RTT, retransmitted and out-of-order segments, and congestion control are those of this host's socket towards the server;\n\
     the server chooses its own. The client leg is this host's loopback: the client's path is not in the figures."
}

/// Cells in columns: numbers to the right.
fn line(cells: &[String; 10]) -> String {
    let mut out = String::new();
    for ((at, cell), width) in cells.iter().enumerate().zip(WIDTHS) {
        let is_text = at == 1 || at + 1 == cells.len();
        // Writing to a string does not fail.
        let _ = if is_text { write!(out, "{cell:<width$}  ") } else { write!(out, "{cell:>width$}  ") };
    }
    out.trim_end().to_owned()
}

const HEADS: [&str; 10] = [
    "round",
    "way",
    "handshake",
    "first byte",
    "goodput",
    "bytes",
    "RTT",
    "retransmitted",
    "out of order",
    "congestion",
];
const WIDTHS: [usize; 10] = [5, 7, 10, 10, 15, 11, 10, 13, 12, 10];
/// Goodputs that differ by less are alike.
const ALIKE: f64 = 0.1;
/// Goodput as a share of a path's rate at which the path is full: headers and the start take the rest.
const FULL: f64 = 0.85;
/// Files below this size are too small for a goodput, bytes.
const SMALL: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::Via::{Direct, Proxied};
    use perigee_units::Time;

    use super::*;
    use crate::doctor::content::Content;
    use crate::doctor::fetch::Fetched;
    use crate::doctor::transfer::ServerLeg;

    #[test]
    fn the_conclusion_says_what_the_figures_allow() {
        let leg = Leg { name: "sky".to_owned(), bandwidth: Some(Rate::from_mbps(20.0)), ..Leg::default() };
        let of = |direct: &[f64], proxied: &[f64], least| {
            let bps = |mbps: &[f64]| mbps.iter().map(|one| one * 1e6).collect::<Vec<_>>();
            conclusion(&bps(direct), &bps(proxied), least, &leg)
        };
        let all = 1 << 30;
        assert_eq!(of(&[5.0, 5.2], &[9.6, 9.8], all), "The proxy carried 1.9 times the direct goodput.");
        assert_eq!(of(&[9.6], &[4.8], all), "The proxy carried 0.5 times the direct goodput.");
        assert!(of(&[4.0, 9.0], &[8.0, 9.5], all).starts_with("The rounds differ more than the two ways (means 6.5"));
        let full =
            "The transfer is not limited by TCP: directly it already has 18.5 Mbit/s of the 20 Mbit/s of leg sky.";
        assert_eq!(of(&[18.5], &[18.9], all), full);
        assert!(of(&[5.0], &[5.1], all).contains("not limited by this host's TCP (1.02 times the direct goodput)"));
        assert!(of(&[5.0], &[50.0], 1000).starts_with("The file is too small to compare goodputs (1 kB)"));
    }

    #[test]
    fn bytes_that_only_the_proxy_changes_are_told_from_a_file_that_changes() {
        let sameness = |bytes: &[(Via, u8)]| {
            let transfer = |&(way, byte): &(Via, u8)| {
                let mut content = Content::default();
                content.add(&[byte; 10]);
                content.is_complete = true;
                let fetched = Fetched { handshake: Time::ZERO, first_byte: Time::ZERO, total: Time::ZERO, content };
                Transfer { round: 1, way, fetched, leg: ServerLeg::default() }
            };
            let transfers = bytes.iter().map(transfer).collect();
            Report { about: Value::Null, leg: Leg::default(), as_json: true, transfers }.sameness()
        };
        assert_eq!(sameness(&[(Direct, 1), (Proxied, 1), (Proxied, 1), (Direct, 1)]), Sameness::Same(10));
        assert_eq!(sameness(&[(Direct, 1), (Proxied, 1), (Proxied, 2), (Direct, 1)]), Sameness::Differ);
        assert_eq!(sameness(&[(Direct, 1), (Proxied, 2), (Proxied, 3), (Direct, 4)]), Sameness::Changing);
    }
}
