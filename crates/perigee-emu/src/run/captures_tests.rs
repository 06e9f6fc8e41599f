//! Captures of made-up packets, without a network.

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use perigee_study::{Overrides, Study};

use super::*;

fn scenario(pcap: &str) -> std::sync::Arc<Scenario> {
    let text = format!(
        r#"
name = "captures"
nodes = ["a", "router", "b"]
[measure]
pcap = {pcap}
[[links]]
name = "near"
between = ["a", "router"]
rate = "1 Gbit/s"
delay = "1 ms"
[[links]]
name = "far"
between = ["router", "b"]
rate = "1 Gbit/s"
delay = "1 ms"
[[flows]]
name = "f"
from = "a"
to = "b"
size = "1 MB"
"#
    );
    let study = Study::parse(&text, "captures.toml").expect("a study");
    let mut none = |file: &str| Err(format!("{file} is not needed here"));
    study.plan(&Overrides::default(), &mut none).expect("a plan").remove(0).scenario.clone()
}

/// Interface, direction, instant, original and kept length of a packet.
type Seen = (u32, u32, Duration, u32, usize);

/// The packets, and interface and count of each gap.
fn read(path: &Path) -> (Vec<Seen>, Vec<(u32, u64)>) {
    let mut reader = PcapNgReader::new(File::open(path).expect("the file")).expect("a pcapng file");
    let (mut packets, mut gaps) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.expect("a whole block") {
            Block::EnhancedPacket(packet) => {
                let [EnhancedPacketOption::Flags(direction)] = packet.options[..] else { panic!("{packet:?}") };
                packets.push((
                    packet.interface_id,
                    direction,
                    packet.timestamp,
                    packet.original_len,
                    packet.data.len(),
                ));
            }
            Block::InterfaceStatistics(block) => {
                for option in &block.options {
                    if let InterfaceStatisticsOption::IsbIfDrop(count) = option {
                        gaps.push((block.interface_id, *count));
                    }
                }
            }
            _ => {}
        }
    }
    (packets, gaps)
}

const ORIGIN: Duration = Duration::from_secs(1_700_000_000);

#[test]
fn a_router_shows_a_packet_twice_and_a_file_has_its_name_only_when_it_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = CaptureFiles { folder: &folder.path().join("captures"), prefix: "run-7-" };
    let mut recorder = Recorder::new(&scenario("[\"router\"]"), &files, ORIGIN).expect("a disk").expect("captures");
    let packet = [0x45; 1500];
    recorder.released(0, Time::from_millis(3), &packet);
    recorder.offered(2, Time::from_millis(4), &packet[..60]);
    recorder.offered(0, Time::from_millis(5), &packet);
    recorder.released(2, Time::from_millis(6), &packet);
    assert_eq!(fs::read_dir(files.folder).expect("the folder").count(), 0, "no name before the end");
    assert_eq!(recorder.finish(7).expect("a disk"), []);
    let at = |ms| ORIGIN + Duration::from_millis(ms);
    let (packets, gaps) = read(&files.folder.join("run-7-router.pcapng"));
    assert_eq!(packets, [(0, 1, at(3), 1500, KEPT), (1, 2, at(4), 60, 60)]);
    assert_eq!(gaps, []);
    assert_eq!(fs::read_dir(files.folder).expect("the folder").count(), 1);
}

#[test]
fn packets_that_do_not_fit_into_the_buffer_are_counted_for_their_node_and_interface() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = CaptureFiles { folder: folder.path(), prefix: "" };
    let recorder = Recorder::with_room(&scenario("true"), &files, ORIGIN, 0).expect("a disk");
    let mut recorder = recorder.expect("captures");
    for _ in 0..3 {
        recorder.released(2, Time::from_secs(1), &[0x45; 40]);
    }
    recorder.offered(2, Time::from_secs(1), &[0x45; 40]);
    let gaps = recorder.finish(1).expect("a disk");
    let gaps: Vec<_> = gaps.iter().map(|gap| (&*gap.record, &*gap.of, gap.missing)).collect();
    assert_eq!(gaps, [("capture", "router", 1), ("capture", "b", 3)]);
    assert_eq!(read(&folder.path().join("b.pcapng")), (vec![], vec![(0, 3)]));
    assert_eq!(read(&folder.path().join("router.pcapng")), (vec![], vec![(1, 1)]));
}

#[test]
fn an_aborted_run_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = CaptureFiles { folder: folder.path(), prefix: "" };
    let mut recorder = Recorder::new(&scenario("true"), &files, ORIGIN).expect("a disk").expect("captures");
    recorder.offered(0, Time::ZERO, &[0x45; 40]);
    drop(recorder);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

#[test]
fn a_full_disk_is_reported_with_the_file() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("this machine has a full disk");
    let writer = CaptureWriter::new(BufWriter::new(full), LinkType::Ip, [], None).expect("nothing is written yet");
    let mut capture = Capture { path: "run-a.pcapng".into(), temporary: None, writer, last: ORIGIN };
    let error = capture.finish(&[]).expect_err("it is full");
    assert_eq!(error.error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().starts_with("run-a.pcapng: "), "{error}");
    let nowhere = CaptureFiles { folder: Path::new("/proc/nowhere"), prefix: "" };
    let error = Recorder::new(&scenario("true"), &nowhere, ORIGIN).err().expect("no folder there");
    assert!(error.to_string().starts_with("/proc/nowhere: "), "{error}");
}

#[test]
fn entries_of_a_block_are_read_as_they_were_written() {
    let entry = |n: u16| PacketHeader {
        now: Time::from_nanos(u64::from(n) << 40),
        place: Tap { file: n, interface: n + 1 },
        direction: if n.is_multiple_of(2) { Direction::Inbound } else { Direction::Outbound },
        length: u32::from(n) * 70_000,
    };
    let mut block = Vec::new();
    for n in 0..5 {
        entry(n).encode(&vec![n as u8; usize::from(n) * 30], &mut block);
    }
    let mut rest = &block[..];
    for n in 0..5 {
        let (found, kept, others) = PacketHeader::decode(rest).expect("an entry");
        assert_eq!((found, kept), (entry(n), &vec![n as u8; usize::from(n) * 30][..]));
        rest = others;
    }
    assert_eq!(PacketHeader::decode(rest), None);
    assert_eq!(PacketHeader::decode(&block[..17]), None);
}
