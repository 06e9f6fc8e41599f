//! Fuzz target: see `src/study.rs`.

#![no_main]

#[path = "../src/study.rs"]
mod study;

libfuzzer_sys::fuzz_target!(|data: &[u8]| study::study(data));
