//! The mean window of highspeed at a loss rate, and why it differs from the response function of RFC 3649.
//!
//! The function assumes losses at equal distances, an a(W) with fractions, and growth by a(W) per round trip. The model
//! below, in floats and without the algorithm's code, replaces one assumption after another: a(W) rounded up to the
//! rows of the RFC's table, losses at random, ACKs that cover two packets. `--show-output` prints the table of
//! `docs/models/congestion-control.md`.

use perigee_cc::Selected;
use perigee_units::Stream;

use crate::highspeed::{a, b, table};
use crate::near;
use crate::path::{run, Path, MSS};
use crate::response::with_periodic_loss;

/// RFC 3649, section 5: W = 0.12 / p^0.835 from 38 packets on; below it sqrt(1.5 / p), Reno's.
fn response(p: f64) -> f64 {
    (0.12 / p.powf(0.835)).max((1.5 / p).sqrt().min(LOW_WINDOW))
}

/// a(W) and b(W) by the RFC's formulas.
fn formulas(w: f64) -> (f64, f64) {
    (a(w.max(LOW_WINDOW)).max(1.0), b(w.max(LOW_WINDOW)))
}

/// The inputs of the mean window.
struct Model<'a> {
    /// a and b of a window.
    law: &'a dyn Fn(f64) -> (f64, f64),
    /// Losses are independent, and repairs take a round trip; otherwise each 1/p-th packet is lost and repairs take no time.
    is_random: bool,
    packets_per_ack: f64,
}

impl Model<'_> {
    /// Mean window over the round trips of `losses` losses.
    fn mean_window(&self, p: f64, losses: u32) -> f64 {
        let mut random = Stream::new(5, "losses");
        let mut distance = || if self.is_random { random.exponential(1.0 / p) } else { 1.0 / p };
        let (mut w, mut windows, mut rounds) = (response(p), 0.0, 0.0);
        for _ in 0..losses {
            let mut packets = distance();
            while packets > w {
                (packets, windows, rounds) = (packets - w, windows + w, rounds + 1.0);
                w += (self.law)(w).0 / self.packets_per_ack;
            }
            (windows, rounds) = (windows + w, rounds + 1.0);
            let (grows, gives_up) = (self.law)(w);
            if self.is_random {
                // The packets before the lost one still open the window.
                w += grows / self.packets_per_ack * packets / w;
            }
            w = (w * (1.0 - gives_up)).max(2.0);
            if self.is_random {
                (windows, rounds) = (windows + w, rounds + 1.0);
            }
        }
        windows / rounds
    }
}

/// Packets that arrive per round trip over a path of 100 ms with random losses and without a queue; the mean of four seeds.
fn delivered_per_round(p: f64, delayed_acks: bool) -> f64 {
    let cc = Selected::parse("highspeed", &[]).expect("an algorithm of this name");
    // 60 losses, and no fewer packets than the receive window needs to grow.
    let seconds = (60.0 / p).max(1e5) / response(p) * 0.1;
    let of_one = |seed| {
        // The receive window does not limit. Receivers acknowledge at once until it has grown to its buffer, in the first third.
        let path =
            Path { loss: p, seed, delayed_acks, receive_window: Some(8_000), ..Path::new(20_000.0, 100, 1 << 40) };
        let outcome = run(&path, &[(&cc, 0.0)], seconds).remove(0);
        outcome.mbps(seconds / 3.0, seconds) * 1e6 / 8.0 / MSS as f64 * 0.1
    };
    (1..=4).map(of_one).sum::<f64>() / 4.0
}

#[test]
fn at_equal_distances_the_formulas_give_the_response_function_and_the_table_the_algorithms_window() {
    let (rows, losses) = (table(), 40);
    let by_table = |w| by_table(&rows, w);
    println!("| p | function | formulas | table | algorithm |\n|---|---:|---:|---:|---:|");
    // Rounding a up matters where a is small.
    for (p, above_percent) in [(1e-3_f64, 60.0), (1e-4, 18.0), (1e-5, 7.0), (1e-6, 4.0)] {
        let [formulas, table]: [f64; 2] = [&formulas as &dyn Fn(f64) -> (f64, f64), &by_table]
            .map(|law| Model { law, is_random: false, packets_per_ack: 1.0 }.mean_window(p, losses));
        let found = with_periodic_loss("highspeed", &[], p, 100_000, 1.3 * response(p), 8);
        println!("| {p:.0e} | {:.1} | {formulas:.1} | {table:.1} | {found:.1} |", response(p));
        near(formulas, response(p), 6.0);
        near(found, table, 4.0);
        assert!(found > response(p), "{found} of {}", response(p));
        near(found, response(p), above_percent);
    }
}

#[test]
fn over_a_path_with_random_losses_the_mean_window_is_that_of_the_table() {
    mean_windows_are_those_of_the_table(&[1e-2, 1e-3]);
}

#[test]
#[ignore = "long: make torture"]
fn over_a_path_with_few_random_losses_the_mean_window_is_that_of_the_table() {
    mean_windows_are_those_of_the_table(&[1e-2, 1e-3, 1e-4, 1e-5]);
}

fn mean_windows_are_those_of_the_table(losses: &[f64]) {
    let rows = table();
    let by_table = |w| by_table(&rows, w);
    println!("| p | function | formulas | table | simulated | table, delayed | simulated, delayed |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for &p in losses {
        let model = |law: &dyn Fn(f64) -> (f64, f64), packets_per_ack| {
            Model { law, is_random: true, packets_per_ack }.mean_window(p, 20_000)
        };
        let modelled = [1.0, 2.0].map(|packets_per_ack| model(&by_table, packets_per_ack));
        let simulated = [false, true].map(|delayed_acks| delivered_per_round(p, delayed_acks));
        println!(
            "| {p:.0e} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            response(p),
            model(&formulas, 1.0),
            modelled[0],
            simulated[0],
            modelled[1],
            simulated[1]
        );
        for (found, law) in simulated.into_iter().zip(modelled) {
            near(found, law, 10.0);
        }
    }
}

/// a and b by the RFC's table: those of the first row that covers the window, as Linux reads it.
fn by_table(rows: &[u32], w: f64) -> (f64, f64) {
    let row = rows.partition_point(|row| f64::from(*row) < w).min(rows.len() - 1);
    (row as f64 + 1.0, b(f64::from(rows[row])))
}

/// RFC 3649, `Low_Window`, packets.
const LOW_WINDOW: f64 = 38.0;
