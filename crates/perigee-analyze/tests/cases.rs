//! One transfer as people's captures have it: in tunnels, behind labels, in fragments, one direction only, cut off, and as other
//! programs write files. It has 48 segments of 1400 bytes over a round trip of 600 ms, three of which were lost and sent again.

use std::io::Read as _;
use std::path::Path;

use crate::common::{of_bytes, of_files, Folder};
use perigee_analyze::Analysis;

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

fn case(name: &str) -> Analysis {
    of_files(&[&path(name)]).unwrap_or_else(|error| panic!("{name}: {error}")).remove(0)
}

/// The bytes of a case, unpacked.
pub(crate) fn unpacked(name: &str) -> Vec<u8> {
    let packed = std::fs::read(path(&format!("{name}.pcap.xz"))).expect("a case");
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(&packed[..], false).read_to_end(&mut bytes).expect("a whole file");
    bytes
}

/// Payload received, packets sent, and sent again.
fn figures(found: &Analysis) -> (u64, Option<u64>, Option<u64>) {
    let flows = &found.tables.flows;
    (flows.received_bytes[0], flows.sent_packets[0], flows.retransmitted_packets[0])
}

#[test]
fn the_transfer_is_the_same_however_it_was_carried_and_stored() {
    let cases: [(&str, &[&str]); 11] = [
        ("plain.pcap.xz", &[]),
        ("gre.pcap.xz", &["GRE"]),
        ("vxlan.pcap.xz", &["VXLAN"]),
        ("mpls.pcap.xz", &["MPLS"]),
        ("v6-hop-by-hop.pcap.xz", &[]),
        ("fragments.pcap.xz", &[]),
        ("ppp.pcap.xz", &[]),
        ("options-without-end.pcapng.xz", &[]),
        ("time-zone.pcapng.xz", &[]),
        ("name-not-utf8.pcapng.xz", &[]),
        ("plain.pcap.zst", &[]),
    ];
    for (name, tunnels) in cases {
        let found = case(name);
        assert_eq!(figures(&found), (67_200, Some(51), Some(3)), "{name}");
        assert_eq!(found.counts.tunnelled.keys().copied().collect::<Vec<_>>(), tunnels, "{name}");
        assert!(
            found.counts.broken.is_empty() && found.counts.tunnelled.values().all(|packets| *packets == 102),
            "{name}"
        );
    }
    let (bytes, _, again) = figures(&case("bigtcp6-jumbo.pcap.xz"));
    assert_eq!((bytes, again), (168_000, Some(3)));
}

#[test]
fn acknowledgements_alone_say_what_arrived_and_nothing_else() {
    let found = case("acks-only.pcap.xz");
    assert_eq!((figures(&found), found.one_way, found.unseen_flows), ((67_200, None, None), 1, 1));
    assert_eq!(found.tables.flows.rtt_mean_ms[0], None);
}

#[test]
fn a_capture_that_is_too_short_of_each_packet_names_its_length() {
    let error = of_files(&[&path("snap-34.pcap.xz")]).expect_err("headers are missing").to_string();
    assert!(error.contains("cut off after 34 bytes") && error.contains("tcpdump -s 128"), "{error}");
}

#[test]
fn damage_of_a_compressed_file_is_told_wherever_it_is() {
    for name in ["plain.pcap.xz", "plain.pcap.zst"] {
        let whole = std::fs::read(path(name)).expect("a case");
        for place in (0..whole.len()).step_by(7) {
            let mut flipped = whole.clone();
            flipped[place] ^= 0x10;
            for bytes in [&whole[..place], &flipped] {
                let is_told = of_bytes(bytes).map_or(true, |found| !found.counts.broken.is_empty());
                let is_same = || of_bytes(bytes).is_ok_and(|found| figures(&found) == figures(&case(name)));
                assert!(is_told || is_same(), "{name}: byte {place} of {}", bytes.len());
            }
        }
    }
}

#[test]
fn frames_of_zstandard_are_read_one_after_the_other() {
    let whole = std::fs::read(path("plain.pcap.zst")).expect("a case");
    let empty = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0];
    let folder = Folder::new();
    let file = folder.file("two.pcap.zst", &[&empty[..], &whole].concat());
    assert_eq!(figures(&of_files(&[&file]).expect("a capture")[0]), (67_200, Some(51), Some(3)));
}
