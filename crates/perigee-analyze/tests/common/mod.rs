//! Captures written by the simulator, and files removed at the end of a test.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{Block, PcapNgBlock as _, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, Endianness};
use perigee_analyze::{analyze, Analysis, AnalyzeError, Options, Part, Source};
use perigee_sim::RunResult;
use perigee_study::{Overrides, Study};

/// A private folder of a test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("perigee-analyze-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder takes a folder");
        Self(path)
    }

    /// Writes a file.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("the temporary folder takes a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a study with sender `a`, router `r` and receiver `b`, each with a capture; the bottleneck is from `r` to `b`.
pub(crate) fn simulated(bottleneck: &str, rest: &str) -> RunResult {
    simulated_behind("1 ms", bottleneck, rest)
}

/// Simulates the transfer with this delay between `a` and `r`.
pub(crate) fn simulated_behind(access: &str, bottleneck: &str, rest: &str) -> RunResult {
    let text = format!(
        r#"
        name = "test"
        nodes = ["a", "r", "b"]
        [[links]]
        name = "access"
        between = ["a", "r"]
        rate = "1 Gbit/s"
        delay = "{access}"
        [[links]]
        name = "bottleneck"
        between = ["r", "b"]
        {bottleneck}
        [measure]
        pcap = true
        {rest}
        "#
    );
    let study = Study::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut no_files = |name: &str| Err(format!("a test has no file {name}"));
    let runs = study.plan(&Overrides::default(), &mut no_files).unwrap_or_else(|error| panic!("{error}\n{text}"));
    perigee_sim::run(&runs[0], &mut |_| ControlFlow::Continue(())).expect("the run is possible")
}

/// The capture of a node.
pub(crate) fn capture<'a>(result: &'a RunResult, node: &str) -> &'a [u8] {
    &result.captures.iter().find(|capture| &*capture.node == node).expect("every node captures").pcapng
}

/// Analyses captures in files.
pub(crate) fn of_files(files: &[&Path]) -> Result<Vec<Analysis>, AnalyzeError> {
    let source = |path: &&Path| Source {
        name: path.file_name().expect("a file").to_string_lossy().into(),
        parts: vec![Part::File(path.to_path_buf())],
    };
    let sources: Vec<_> = files.iter().map(source).collect();
    analyze(&sources, "test", &Options::default(), &mut |_| ControlFlow::Continue(()))
}

/// Analyses a capture in memory.
pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Analysis, AnalyzeError> {
    let source = Source { name: "capture".into(), parts: vec![Part::Bytes(bytes.into())] };
    let found = analyze(&[source], "test", &Options::default(), &mut |_| ControlFlow::Continue(()));
    found.map(|mut all| all.remove(0))
}

/// The packets of a capture by the simulator: time in ns, captured bytes, length on the wire.
pub(crate) fn packets(pcapng: &[u8]) -> Vec<Packet> {
    let mut reader = PcapNgReader::new(pcapng).expect("a pcapng file");
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a whole block") {
            packets.push((packet.timestamp.as_nanos() as u64, packet.data.to_vec(), packet.original_len));
        }
    }
    packets
}

/// Returns the packets as classic pcap of a link type, of which each packet's Ethernet header is replaced where it is another; in
/// units of `unit_ns`.
pub(crate) fn classic(pcapng: &[u8], link: u32, is_big: bool, unit_ns: u64) -> Vec<u8> {
    let word = |value: u32| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let magic: u32 = if unit_ns == 1 { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let version = if is_big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    let mut file = [word(magic), version, [0; 4], [0; 4], word(262_144), word(link)].concat();
    let header: &[u8] = match link {
        0 => &[2, 0, 0, 0],
        12 | 101 | 228 => &[],
        113 => &[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0],
        276 => &[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0],
        _ => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0, 7, 8, 0],
    };
    for (at, data, wire) in packets(pcapng) {
        let header = if link == 1 { &data[..14] } else { header };
        let kept = header.len() + data.len() - 14;
        let wire = wire - 14 + header.len() as u32;
        file.extend([word((at / 1_000_000_000) as u32), word((at % 1_000_000_000 / unit_ns) as u32)].concat());
        file.extend([word(kept as u32), word(wire)].concat());
        file.extend(header);
        file.extend(&data[14..]);
    }
    file
}

/// Time in ns, captured bytes, length on the wire.
pub(crate) type Packet = (u64, Vec<u8>, u32);

/// A pcapng file of packets with this byte order and resolution of time.
pub(crate) fn blocks(packets: &[Packet], order: Endianness, resolution: u8) -> Vec<u8> {
    blocks_of(packets, order, resolution, 1)
}

/// Returns the packets as blocks of several interfaces, which receive them in turns.
pub(crate) fn blocks_of(packets: &[Packet], order: Endianness, resolution: u8, interfaces: usize) -> Vec<u8> {
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), order).expect("in memory");
    for _ in 0..interfaces {
        let options = vec![InterfaceDescriptionOption::IfTsResol(resolution)];
        let block = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
        writer.write_block(&block.into_block()).expect("in memory");
    }
    for (number, (at, data, wire)) in packets.iter().enumerate() {
        let units = match resolution {
            9 => *at,
            6 => at / 1000,
            _ => (u128::from(*at) * (1 << (resolution & 0x7f)) / 1_000_000_000) as u64,
        };
        let block = EnhancedPacketBlock {
            interface_id: (number % interfaces) as u32,
            timestamp: std::time::Duration::from_nanos(units),
            original_len: *wire,
            data: data.as_slice().into(),
            options: vec![],
        };
        writer.write_block(&block.into_block()).expect("in memory");
    }
    writer.into_inner()
}

/// Where the edges of the SACK blocks of a TCP header stand in it.
pub(crate) fn sack_edges(header: &[u8]) -> Vec<usize> {
    let (mut at, mut edges) = (20, Vec::new());
    while at < usize::from(header[12] >> 4) * 4 {
        match header[at] {
            0 | 1 => at += 1,
            5 => {
                let after = at + usize::from(header[at + 1]);
                edges.extend((at + 2..after).step_by(4));
                at = after;
            }
            _ => at += usize::from(header[at + 1]).max(1),
        }
    }
    edges
}

/// The offsets of the records of a classic file in little-endian.
pub(crate) fn records(classic: &[u8]) -> Vec<usize> {
    let (mut at, mut starts) = (24, Vec::new());
    while let Some(kept) = classic.get(at + 8..at + 12) {
        starts.push(at);
        at += 16 + u32::from_le_bytes(kept.try_into().expect("four bytes")) as usize;
    }
    starts
}
