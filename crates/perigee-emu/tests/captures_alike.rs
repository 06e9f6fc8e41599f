//! Captures of one study on both engines: the same addresses, ports, ECN fields and handshakes.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::Path;

use crate::common::alone;
use pcap_file::pcapng::{Block, PcapNgReader};
use perigee_emu::{check, run, CaptureFiles};
use perigee_study::{Overrides, Run, Study};
use perigee_wire::{Packet, Ports, Transport, ETHERNET_HEADER_BYTES};

#[test]
fn captures_of_the_study_validation_have_the_same_ends_and_handshakes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("studies/validation/study.toml")).expect("the study");
    let _alone = alone();
    let settings = [
        "experiments=alone",
        "measure.pcap=true",
        "flows.download.cc=cubic",
        "flow.duration=\"1500 ms\"",
        "flow.start_jitter=\"0 s\"",
    ];
    let runs = plan(&text, &Overrides::new(&settings, true).expect("settings"));
    assert_eq!(runs.len(), 6, "one run over each link");
    for run in &runs {
        compare(run);
    }
}

#[test]
fn uploads_datagrams_and_pings_over_both_versions_of_ip_have_the_same_ends_and_handshakes() {
    let _alone = alone();
    let hosts = [
        "",
        "timestamps = false",
        "sack = false\nrmem = [\"4096 B\", \"131072 B\", \"30 MB\"]",
        "timestamps = false\nsack = false",
        "window_scaling = false",
        "mss = \"1000 B\"",
    ];
    for settings in hosts {
        let text = format!(
            r#"
name = "alike"
nodes = ["a", "b"]
[measure]
pcap = true
[hosts]
{settings}
[[links]]
name = "wire"
between = ["a", "b"]
rate = "20 Mbit/s"
delay = "5 ms"
{}{}"#,
            flows("v4", true),
            flows("v6", false)
        );
        for run in plan(&text, &Overrides::default()) {
            compare(&run);
        }
    }
}

/// An upload, datagrams and pings over a version of IP.
fn flows(ip: &str, l4s: bool) -> String {
    format!(
        r#"
[[flows]]
name = "upload-{ip}"
from = "a"
to = "b"
ip = "{ip}"
size = "20 kB"
opened_by = "sender"
[[flows]]
name = "datagrams-{ip}"
kind = "udp"
from = "a"
to = "b"
ip = "{ip}"
rate = "80 kbit/s"
packet = "500 B"
duration = "300 ms"
ecn = true
l4s = {l4s}
[[flows]]
name = "pings-{ip}"
kind = "ping"
from = "b"
to = "a"
ip = "{ip}"
interval = "50 ms"
packet = "100 B"
repeat = 4
"#
    )
}

fn plan(text: &str, settings: &Overrides) -> Vec<Run> {
    let study = Study::parse(text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    let mut none = |file: &str| Err(format!("{file} is not needed here"));
    study.plan(settings, &mut none).unwrap_or_else(|error| panic!("{error}"))
}

/// Compares the captures of each node; prints the reason and returns where this machine cannot emulate.
fn compare(plan: &Run) {
    let folder = tempfile::tempdir().expect("a folder");
    let files = CaptureFiles { folder: folder.path(), prefix: "" };
    match check(plan).and_then(|()| run(plan, &files, &mut |_| ControlFlow::Continue(()))) {
        Ok(_) => {}
        Err(error) if error.is_wrong_input() => return println!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    }
    let simulated = perigee_sim::run(plan, &mut |_| ControlFlow::Continue(())).expect("a run that ends");
    assert_eq!(simulated.captures.len(), plan.scenario.nodes.len());
    for capture in simulated.captures {
        let emulated = fs::read(folder.path().join(format!("{}.pcapng", capture.node))).expect("a capture");
        let (simulated, emulated) = (packets(&capture.pcapng), packets(&emulated));
        let what = format!("at {} of {}", capture.node, plan.scenario.point);
        // In the simulator, clients' ports begin elsewhere in each run.
        let back = Ports::DISTINCT as u16 - (first_client(&simulated) - first_client(&emulated));
        assert_eq!(ends(&simulated, back), ends(&emulated, 0), "addresses, ports and ECN fields {what}");
        assert_eq!(handshakes(&simulated, back), handshakes(&emulated, 0), "handshakes {what}");
    }
}

/// The IP packets of a capture.
fn packets(pcapng: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = PcapNgReader::new(pcapng).expect("a pcapng file");
    let (mut packets, mut before) = (Vec::new(), 0);
    while let Some(block) = reader.next_block() {
        match block.expect("a whole block") {
            Block::InterfaceDescription(interface) => {
                let is_ethernet = interface.linktype == pcap_file::DataLink::ETHERNET;
                before = if is_ethernet { ETHERNET_HEADER_BYTES } else { 0 };
            }
            Block::EnhancedPacket(packet) => packets.push(packet.data[before..].to_vec()),
            _ => {}
        }
    }
    packets
}

/// The client's port of the flow whose server has the lowest.
fn first_client(packets: &[Vec<u8>]) -> u16 {
    let ports = packets.iter().filter_map(|packet| match Packet::read(packet)?.transport {
        Transport::Tcp(tcp) => Some((tcp.source_port, tcp.destination_port)),
        Transport::Udp { source_port, destination_port, .. } => Some((source_port, destination_port)),
        Transport::Echo { .. } | Transport::Other => None,
    });
    ports.map(|(a, b)| (a.min(b), a.max(b))).min().expect("a flow with ports").1
}

/// Source, destination, ports (or identifier) and ECN field of the packets; clients' ports are moved `back` places.
fn ends(packets: &[Vec<u8>], back: u16) -> BTreeSet<(IpAddr, IpAddr, &'static str, u16, u16, u8)> {
    let end = |packet: &Vec<u8>| {
        let packet = Packet::read(packet).expect("an IP packet");
        let (kind, from, to) = match packet.transport {
            Transport::Tcp(tcp) => ("tcp", tcp.source_port, tcp.destination_port),
            Transport::Udp { source_port, destination_port, .. } => ("udp", source_port, destination_port),
            Transport::Echo { is_reply: false, identifier, .. } => ("request", identifier, identifier),
            Transport::Echo { is_reply: true, identifier, .. } => ("reply", identifier, identifier),
            Transport::Other => panic!("of no flow: {packet:?}"),
        };
        let [from, to] = [from, to].map(|port| Ports::in_run(port, back));
        (packet.source, packet.destination, kind, from, to, packet.ecn)
    };
    packets.iter().map(end).collect()
}

/// The fields of a SYN or SYN-ACK that are compared.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Handshake {
    ports: (u16, u16),
    is_answer: bool,
    /// Size of the IP packet.
    bytes: u32,
    mss: Option<u16>,
    window_scale: Option<u8>,
    /// The window field of the header, not scaled.
    window: u16,
    /// The kinds of options in the order of the header, up to the end of the list.
    kinds: Vec<u8>,
    /// Whether the echoed timestamp is that of the other end's SYN; in a SYN it is 0.
    has_right_echo: bool,
}

/// The segments with SYN, without duplicates; clients' ports are moved `back` places.
fn handshakes(packets: &[Vec<u8>], back: u16) -> BTreeSet<Handshake> {
    let segments = || {
        packets.iter().filter_map(|bytes| {
            let packet = Packet::read(bytes)?;
            let Transport::Tcp(tcp) = packet.transport else { return None };
            let header = &bytes[if packet.source.is_ipv4() { 20 } else { 40 }..];
            tcp.syn.then_some((packet.bytes, header, tcp))
        })
    };
    let clocks =
        |port: u16| segments().filter_map(move |(_, _, tcp)| tcp.timestamps.filter(|_| tcp.source_port == port));
    segments()
        .map(|(bytes, header, tcp)| Handshake {
            bytes,
            ports: (Ports::in_run(tcp.source_port, back), Ports::in_run(tcp.destination_port, back)),
            is_answer: tcp.acknowledgement.is_some(),
            mss: tcp.opening.mss,
            window_scale: tcp.opening.window_scale,
            window: tcp.window,
            kinds: kinds(header),
            has_right_echo: tcp.timestamps.is_none_or(|(_, echo)| match tcp.acknowledgement {
                None => echo == 0,
                Some(_) => clocks(tcp.destination_port).any(|(clock, _)| clock == echo),
            }),
        })
        .collect()
}

/// The kinds of a TCP header's options.
fn kinds(header: &[u8]) -> Vec<u8> {
    let mut options = &header[20..usize::from(header[12] >> 4) * 4];
    let mut kinds = Vec::new();
    while let Some(kind @ 1..) = options.first().copied() {
        kinds.push(kind);
        options = &options[if kind == 1 { 1 } else { usize::from(options[1]) }..];
    }
    kinds
}
