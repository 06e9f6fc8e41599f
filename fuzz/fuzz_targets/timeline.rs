//! Fuzz target: see `src/link.rs`.

#![no_main]

#[path = "../src/link.rs"]
mod link;

libfuzzer_sys::fuzz_target!(|data: &[u8]| link::timeline(data));
