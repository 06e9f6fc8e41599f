//! Captures: checked by this repository's reader, byte by byte, and by tshark if installed.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the simulator returns captures, the test writes them for a reader of files"
)]

use std::process::{Command, Stdio};

use pcap_file::pcapng::{Block, PcapNgReader};

use super::{carry_out, plan, through_router};
use crate::carriage::Carriage;

/// A run with losses, so that SACK blocks occur, and with datagrams, captured at its two ends.
fn captured(capture_payload: usize) -> Vec<(String, Vec<u8>)> {
    captured_of("v4", capture_payload)
}

/// [`captured`] with this IP version.
fn captured_of(ip: &str, capture_payload: usize) -> Vec<(String, Vec<u8>)> {
    let run = plan(&through_router(
        "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nloss = \"1 %\"",
        &r#"
        [measure]
        pcap = ["a", "b"]
        [[flows]]
        name = "f"
        from = "a"
        to = "b"
        size = "500 kB"
        [[flows]]
        name = "p"
        kind = "ping"
        from = "a"
        to = "b"
        interval = "50 ms"
        packet = "101 B"
        repeat = 10
        [[flows]]
        name = "u"
        kind = "udp"
        from = "a"
        to = "b"
        rate = "80 kbit/s"
        packet = "1 kB"
        duration = "500 ms"
        priority = "low"
        "#
        .replace("name =", &format!("ip = \"{ip}\"\nname =")),
    ));
    let options = Carriage { capture_payload, ..Carriage::default() };
    let captures = carry_out(&run, options).expect("the run succeeds").captures;
    captures.into_iter().map(|capture| (capture.node.to_string(), capture.pcapng)).collect()
}

/// Instant in ns, captured bytes and original length of each packet.
pub(super) fn packets(pcapng: &[u8]) -> Vec<(u128, Vec<u8>, u32)> {
    let mut reader = PcapNgReader::new(pcapng).expect("a pcapng file");
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a valid block") {
            packets.push((packet.timestamp.as_nanos(), packet.data.to_vec(), packet.original_len));
        }
    }
    packets
}

/// The one's complement sum of 16-bit words: 0xffff if it includes a correct checksum.
fn sum(bytes: &[u8]) -> u32 {
    let mut sum: u32 = bytes.chunks(2).map(|w| u32::from(w[0]) * 256 + u32::from(*w.get(1).unwrap_or(&0))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

#[test]
fn captured_packets_have_correct_lengths_and_checksums() {
    for (node, pcapng) in captured(65_535) {
        let packets = packets(&pcapng);
        assert!(packets.len() > 400, "{} packets at {node}", packets.len());
        assert!(packets.is_sorted_by_key(|(at, ..)| *at), "packets are in time order");
        let mut protocols = [0u32; 3];
        for (_, data, original) in packets {
            assert_eq!(data.len(), original as usize);
            assert_eq!(data[12..14], [0x08, 0x00], "IPv4");
            let (ip, transport) = data[14..].split_at(20);
            assert_eq!(usize::from(ip[2]) * 256 + usize::from(ip[3]), ip.len() + transport.len());
            assert_eq!(sum(ip), 0xffff, "header checksum");
            assert_eq!(ip[1], if ip[9] == 17 { 4 } else { 0 }, "low priority is lower effort (RFC 8622)");
            let mut pseudo = ip[12..20].to_vec();
            pseudo.extend([0, ip[9]]);
            pseudo.extend((transport.len() as u16).to_be_bytes());
            // ICMP's checksum covers the message only (RFC 792).
            let is_echo = ip[9] == 1;
            assert_eq!(
                sum(&[if is_echo { &[] } else { &pseudo[..] }, transport].concat()),
                0xffff,
                "transport checksum"
            );
            let numbered = ip[9] == 17 && transport[8..12] == protocols[2].to_be_bytes();
            assert!(ip[9] != 17 || numbered, "datagram {} has the number {:?}", protocols[2], &transport[8..12]);
            protocols[[6, 1, 17].iter().position(|protocol| *protocol == ip[9]).expect("a known protocol")] += 1;
        }
        assert!(protocols[0] > 0 && protocols[1] >= 10 && protocols[2] == 5, "{protocols:?} of TCP, ICMP and UDP");
    }
}

/// Flags and payload bytes of each TCP packet that crosses `b` of a study with this flow, without losses.
fn exchanged(flow: &str) -> Vec<(u8, usize)> {
    let text = through_router("rate = \"20 Mbit/s\"\ndelay = \"20 ms\"", &format!("[measure]\npcap = [\"b\"]\n{flow}"));
    let captures = carry_out(&plan(&text), Carriage::default()).expect("the run succeeds").captures;
    let packets = packets(&captures[0].pcapng);
    let payload = |data: &[u8], bytes: u32| bytes as usize - 34 - usize::from(data[46] >> 4) * 4;
    packets.into_iter().map(|(_, data, bytes)| (data[47], payload(&data, bytes))).collect()
}

#[test]
fn a_connection_opens_and_closes_with_the_packets_of_linux() {
    let (fin, syn, push, ack) = (1, 2, 8, 16);
    // The ACKs of handshake and request leave before the applications write. A FIN follows what was sent, and
    // the answer to it carries its ACK.
    let opened = [(syn, 0), (syn | ack, 0), (ack, 0), (push | ack, 300), (ack, 0), (push | ack, 1000)];
    let closed_by_server = [(ack, 0), (fin | ack, 0), (fin | ack, 0), (ack, 0)];
    // Both ends of a flow that is complete close at once.
    let closed_by_both = [(ack, 0), (fin | ack, 0), (fin | ack, 0), (ack, 0), (ack, 0)];
    for (flow, closed) in [
        ("kind = 'request'\nresponse = '1 kB'\nrepeat = 1\nthink = '0 s'", &closed_by_both[..]),
        ("kind = 'transactions'\ninterval = '9 s'\nresponses = ['1 kB']\nduration = '40 s'", &closed_by_server[..]),
    ] {
        let packets = exchanged(&format!("[[flows]]\nname = 'f'\nfrom = 'a'\nto = 'b'\nrequest = '300 B'\n{flow}"));
        let connection = [&opened[..], closed].concat();
        assert!(packets.chunks(connection.len()).all(|packets| packets == connection), "{flow}: {packets:?}");
    }
}

#[test]
fn ipv6_packets_have_correct_lengths_and_checksums_and_are_no_larger_than_ipv4_packets() {
    let largest = |captures: Vec<(String, Vec<u8>)>| {
        let sizes = captures.iter().flat_map(|(_, pcapng)| packets(pcapng)).map(|(_, data, _)| data.len());
        sizes.max().expect("packets")
    };
    assert_eq!(largest(captured_of("v6", 65_535)), largest(captured_of("v4", 65_535)));
    for (node, pcapng) in captured_of("v6", 65_535) {
        let packets = packets(&pcapng);
        assert!(packets.len() > 400, "{} packets at {node}", packets.len());
        for (_, data, _) in packets {
            let (ip, transport) = data[14..].split_at(40);
            let class = if ip[6] == 17 { 4 } else { 0 };
            assert_eq!((&data[12..14], &ip[..2]), (&[0x86, 0xdd][..], &[0x60, class << 4][..]));
            assert_eq!(usize::from(ip[4]) * 256 + usize::from(ip[5]), transport.len());
            // RFC 8200, 8.1.
            let mut pseudo = ip[8..40].to_vec();
            pseudo.extend((transport.len() as u32).to_be_bytes());
            pseudo.extend([0, 0, 0, ip[6]]);
            pseudo.extend(transport);
            assert_eq!(sum(&pseudo), 0xffff, "transport checksum");
        }
    }
}

#[test]
fn captures_of_headers_only_keep_the_original_lengths() {
    let (whole, headers) = (captured(65_535), captured(0));
    for ((_, whole), (_, headers)) in whole.iter().zip(&headers) {
        let (whole, headers) = (packets(whole), packets(headers));
        assert_eq!(whole.len(), headers.len());
        for (whole, headers) in whole.iter().zip(&headers) {
            assert_eq!((whole.0, whole.2), (headers.0, headers.2));
            assert!(headers.1.len() <= 94 && whole.1.starts_with(&headers.1));
        }
    }
}

#[test]
fn tshark_finds_nothing_wrong() {
    if Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("skipped: tshark is not installed");
        return;
    }
    for (node, pcapng) in captured(65_535) {
        let file = std::env::temp_dir().join(format!("perigee-sim-{}-{node}.pcapng", std::process::id()));
        std::fs::write(&file, &pcapng).expect("the temporary folder accepts a file");
        let tshark = |filter: &str| {
            let output = Command::new("tshark")
                .args([
                    "-o",
                    "ip.check_checksum:TRUE",
                    "-o",
                    "tcp.check_checksum:TRUE",
                    "-o",
                    "udp.check_checksum:TRUE",
                ])
                .args(["-T", "fields", "-e", "frame.number", "-Y", filter, "-r"])
                .arg(&file)
                .output()
                .expect("tshark runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).lines().count()
        };
        let all = packets(&pcapng).len();
        assert_eq!(tshark("tcp || udp || icmp"), all);
        assert_eq!(
            tshark(
                "ip.checksum.status == 1 && (tcp.checksum.status == 1 || udp.checksum.status == 1 || \
            icmp.checksum.status == 1)"
            ),
            all
        );
        assert_eq!(tshark("_ws.malformed || _ws.expert.severity >= error"), 0);
        assert_eq!(
            tshark("tcp.flags.syn == 1 && tcp.options.wscale.shift && tcp.options.mss && tcp.options.sack_perm"),
            2
        );
        assert!(tshark("tcp.options.sack.count > 0") > 0, "SACK blocks report losses");
        std::fs::remove_file(&file).expect("the file is removed");
    }
}
