//! Prints the throughput of 25 splits under random loss, next to their two legs alone with the same seeds: the table of
//! `docs/models/proxy.md`.

#[path = "../tests/split/grid.rs"]
mod grid;

use grid::{measure, LEGS};

fn main() {
    println!("| first leg | second leg | first alone | second alone | split | beside the slower |");
    println!("|---|---|---:|---:|---:|---:|");
    let words = |(rate, delay, loss): grid::Leg| format!("{rate} Mbit/s, {delay} ms, {loss} %");
    for first in LEGS {
        for second in LEGS {
            let found = measure([first, second], 600);
            let [a, b] = found.alone;
            let (split, percent) = (found.split, 100.0 * found.error());
            println!("| {} | {} | {a:.2} | {b:.2} | {split:.2} | {percent:+.1} % |", words(first), words(second));
        }
    }
}
