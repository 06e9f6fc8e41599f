//! Fuzz target: see `src/probe.rs`.

#![no_main]

#[path = "../src/probe.rs"]
mod probe;

libfuzzer_sys::fuzz_target!(|data: &[u8]| probe::probe(data));
