//! Fuzz target: see `src/capture.rs`.

#![no_main]

#[path = "../src/capture.rs"]
mod capture;

libfuzzer_sys::fuzz_target!(|data: &[u8]| capture::capture(data));
