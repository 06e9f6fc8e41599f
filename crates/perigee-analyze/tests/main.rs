//! Captures are read and measured. One program: each is linked with the whole crate.

mod both_ends;
mod cases;
mod common;
mod corpus;
mod damage;
mod foreign;
mod formats;
mod short_paths;
mod simulated;
mod tshark;
