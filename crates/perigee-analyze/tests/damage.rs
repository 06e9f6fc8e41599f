//! Captures that are truncated, corrupted, spliced or random: no panic, and no counts above the input's.

use std::sync::OnceLock;

use crate::common::{capture, of_bytes, simulated};
use perigee_analyze::AnalyzeError;
use proptest::prelude::*;

/// A small capture with losses, as pcapng and as classic pcap, and one in tunnels, behind labels and in fragments.
fn captures() -> &'static [Vec<u8>] {
    static MADE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    MADE.get_or_init(|| {
        let blocks = capture(&small(), "a").to_vec();
        let classic = crate::common::classic(&blocks, 1, false, 1_000);
        [blocks, classic].into_iter().chain(CARRIED.map(crate::cases::unpacked)).collect()
    })
}

/// Returns a capture of the connection at its receiver.
fn far_end() -> &'static [u8] {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    MADE.get_or_init(|| capture(&small(), "b").to_vec())
}

fn small() -> perigee_sim::RunResult {
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"150 kB\"\n";
    simulated("rate = \"5 Mbit/s\"\ndelay = \"20 ms\"\nloss = \"3 %\"", flow)
}

/// The result is consistent, or an error in one line.
fn check(bytes: &[u8]) {
    match of_bytes(bytes) {
        Ok(found) => {
            let flows = &found.tables.flows;
            for row in 0..flows.run.len() {
                assert!(flows.goodput_mbps[row].is_none_or(f64::is_finite) && flows.duration_s[row] >= 0.0);
                assert!(
                    flows.retransmitted_packets[row] <= flows.sent_packets[row] || flows.sent_packets[row].is_none()
                );
            }
        }
        Err(error) => {
            let said = error.to_string();
            assert!(!said.contains('\n') && said.len() < 500, "{said}");
        }
    }
}

const CARRIED: [&str; 5] = ["gre", "vxlan", "mpls", "fragments", "ppp"];

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 5, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_are_no_panic(
        which in 0..2 + CARRIED.len(),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut bytes = captures()[which].clone();
        for (place, value) in flips {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        check(&bytes);
    }

    #[test]
    fn flipped_headers_of_packets_are_no_panic(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), 30usize..90, any::<u8>()), 1..60),
    ) {
        // Records of the classic file have one length; the rest after the record's header is the packet.
        let mut bytes = captures()[1].clone();
        let starts = crate::common::records(&bytes);
        for (place, at, value) in flips {
            let start = starts[place.index(starts.len())];
            if let Some(byte) = bytes.get_mut(start + at) {
                *byte = value;
            }
        }
        check(&bytes);
    }

    #[test]
    fn cut_and_spliced_captures_are_no_panic(
        which in 0usize..2,
        from in any::<proptest::sample::Index>(),
        to in any::<proptest::sample::Index>(),
        end in any::<proptest::sample::Index>(),
    ) {
        let bytes = &captures()[which];
        let spliced = [&bytes[..from.index(bytes.len())], &bytes[to.index(bytes.len())..]].concat();
        check(&spliced[..end.index(spliced.len() + 1)]);
    }

    #[test]
    fn a_damaged_capture_beside_a_whole_one_is_no_panic(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), 30usize..90, any::<u8>()), 1..60),
    ) {
        let mut bytes = captures()[1].clone();
        let starts = crate::common::records(&bytes);
        for (place, at, value) in flips {
            if let Some(byte) = bytes.get_mut(starts[place.index(starts.len())] + at) {
                *byte = value;
            }
        }
        let folder = crate::common::Folder::new();
        let files = [folder.file("damaged", &bytes), folder.file("whole", far_end())];
        if let Ok(found) = crate::common::of_files(&[&files[0], &files[1]]) {
            for analysis in found {
                let seen = analysis.captured.connections;
                prop_assert!(seen.matched_lost_packets.iter().zip(&seen.matched_packets).all(|(lost, all)| lost <= all));
            }
        }
    }

    #[test]
    fn invented_bytes_behind_a_right_beginning_are_no_panic(
        which in 0usize..2,
        head in 4usize..200,
        tail in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        check(&[&captures()[which][..head], &tail[..]].concat());
    }
}

#[test]
fn a_capture_that_breaks_off_gives_what_stands_before_and_says_where() {
    for bytes in &captures()[..2] {
        let whole = of_bytes(bytes).expect("a capture");
        let half = of_bytes(&bytes[..=bytes.len() / 2]).expect("half of one");
        assert!(half.counts.frames > 0 && half.counts.frames < whole.counts.frames);
        let [(_, broken)] = &half.counts.broken[..] else { panic!("one place: {:?}", half.counts.broken) };
        assert!(broken.why.contains("ends within"), "{broken:?}");
        assert!(broken.offset < bytes.len() as u64 / 2 + 1 && broken.offset > bytes.len() as u64 / 3);
        assert!(whole.counts.broken.is_empty());
    }
}

#[test]
fn a_packet_that_claims_an_absurd_length_is_where_reading_ends() {
    let mut bytes = captures()[1].clone();
    let starts = crate::common::records(&bytes);
    bytes[starts[20] + 8..starts[20] + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let found = of_bytes(&bytes).expect("the packets before it");
    assert_eq!(found.counts.frames, 20);
    assert_eq!(found.counts.broken[0].1.offset, starts[20] as u64);
}

#[test]
fn what_is_no_capture_is_an_error_that_says_what_to_give() {
    for bytes in [&b""[..], b"\xd4\xc3\xb2\xa1", b"hello, this is a letter", &[0x1f, 0x8b, 1, 2, 3]] {
        let error = of_bytes(bytes).expect_err("no capture");
        assert!(matches!(error, AnalyzeError::NotACapture { .. }), "{error}");
        assert!(error.to_string().contains("give a pcap or pcapng file"), "{error}");
    }
}
