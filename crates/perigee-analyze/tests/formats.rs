//! Packets in other file formats, and with changes that hosts and networks make.

use std::io::Write as _;

use crate::common::{blocks, blocks_of, capture, classic, of_bytes, packets, sack_edges, simulated, Folder, Packet};
use pcap_file::Endianness;
use perigee_analyze::{analyze, Analysis, Options, Part, Source};
use perigee_sim::RunResult;

fn download() -> RunResult {
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"3 MB\"\n";
    simulated("rate = \"10 Mbit/s\"\ndelay = \"40 ms\"\nloss = \"1 %\"", flow)
}

/// Results that must not depend on the file format.
fn figures(analysis: &Analysis) -> (u64, Option<u64>, Option<u64>, String) {
    let flows = &analysis.tables.flows;
    let rtt = format!("{:.3}", flows.rtt_mean_ms[0].unwrap_or_default());
    (flows.received_bytes[0], flows.sent_packets[0], flows.retransmitted_packets[0], rtt)
}

#[test]
fn every_link_type_byte_order_and_resolution_gives_the_same_figures() {
    let result = download();
    let original = capture(&result, "b");
    let expected = figures(&of_bytes(original).expect("a capture"));
    for link in [0, 1, 12, 101, 113, 228, 276] {
        for (is_big, unit_ns) in [(false, 1), (true, 1)] {
            let found = of_bytes(&classic(original, link, is_big, unit_ns)).expect("a capture");
            assert_eq!(figures(&found), expected, "link {link}, big {is_big}");
        }
    }
    let packets = packets(original);
    for order in [Endianness::Big, Endianness::Little] {
        let found = of_bytes(&blocks(&packets, order, 9)).expect("a capture");
        assert_eq!(figures(&found), expected, "{order:?}");
        // Times are coarser, and round trips nearly the same.
        for resolution in [6, 0x94] {
            let found = figures(&of_bytes(&blocks(&packets, order, resolution)).expect("a capture"));
            assert_eq!((found.0, found.1, found.2), (expected.0, expected.1, expected.2));
            let (found, expected): (f64, f64) = (found.3.parse().expect("a number"), expected.3.parse().expect("one"));
            assert!((found - expected).abs() < 0.01, "{resolution}: {found} for {expected}");
        }
    }
}

#[test]
fn a_vlan_tag_a_short_snap_length_and_several_sections_change_nothing() {
    let result = download();
    let original = capture(&result, "a");
    let expected = figures(&of_bytes(original).expect("a capture"));
    // A VLAN tag before the packet, and only 66 bytes of each Ethernet frame captured.
    let tagged: Vec<Packet> = packets(original)
        .into_iter()
        .map(|(at, data, wire)| (at, [&data[..12], &[0x81, 0, 0, 9], &data[12..]].concat(), wire + 4))
        .collect();
    assert_eq!(figures(&of_bytes(&blocks(&tagged, Endianness::Little, 9)).expect("a capture")), expected);
    let half = tagged.len() / 2;
    let first = blocks(&tagged[..half], Endianness::Little, 9);
    let second = blocks(&tagged[half..], Endianness::Big, 9);
    assert_eq!(figures(&of_bytes(&[first.clone(), second.clone()].concat()).expect("two sections")), expected);
    let folder = Folder::new();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&second).expect("in memory");
    let packed = packed.finish().expect("in memory");
    let parts = [folder.file("0.pcapng", &first), folder.file("1.pcapng.gz", &packed)].map(Part::File).into();
    let joined = Source { name: "parts".into(), parts };
    let found = analyze(&[joined], "test", &Options::default(), &mut |_| std::ops::ControlFlow::Continue(()));
    assert_eq!(figures(&found.expect("two parts")[0]), expected);
}

/// Applies a change to each TCP packet, given from its IPv4 header on, and whether it travels in the direction of the data.
fn changed(original: &[Packet], mut change: impl FnMut(&mut [u8], bool)) -> Vec<Packet> {
    let mut packets = original.to_vec();
    for (_, data, _) in &mut packets {
        let is_data = data[14 + 12..14 + 16] == [10, 71, 0, 1];
        change(&mut data[14..], is_data);
    }
    packets
}

fn add(word: &mut [u8], number: u32) {
    let sum = u32::from_be_bytes([word[0], word[1], word[2], word[3]]).wrapping_add(number);
    word.copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn numbers_that_wrap_change_nothing() {
    let result = download();
    let original = packets(capture(&result, "a"));
    let expected = figures(&of_bytes(&blocks(&original, Endianness::Little, 9)).expect("a capture"));
    let first = original.iter().find(|(_, data, _)| data[14 + 12..14 + 16] == [10, 71, 0, 1]).expect("data");
    let sequence = u32::from_be_bytes(first.1[38..42].try_into().expect("four bytes"));
    // The sequence numbers of the 3 MB stream wrap after the first MB.
    let shift = 0u32.wrapping_sub(1_000_000).wrapping_sub(sequence);
    let wrapped = changed(&original, |ip, is_data| {
        if is_data {
            return add(&mut ip[24..28], shift);
        }
        if ip[33] & 16 != 0 {
            add(&mut ip[28..32], shift);
        }
        for edge in sack_edges(&ip[20..]) {
            add(&mut ip[20 + edge..24 + edge], shift);
        }
    });
    assert_eq!(figures(&of_bytes(&blocks(&wrapped, Endianness::Little, 9)).expect("a capture")), expected);
}

#[test]
fn packets_that_overtake_are_late_and_not_sent_again() {
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"3 MB\"\n";
    let result = simulated("rate = \"10 Mbit/s\"\ndelay = \"40 ms\"", flow);
    // Every fiftieth packet is moved behind the next two, with the time of the second; packets between them are left out.
    let (mut packets, mut held, mut number, mut swapped) = (Vec::new(), None, 0, 0);
    for packet in self::packets(capture(&result, "b")) {
        let is_data = packet.2 > 1500;
        number += u64::from(is_data);
        if is_data && number % 50 == 10 {
            held = Some((packet, 0));
            continue;
        }
        let Some((late, passed)) = held.as_mut() else {
            packets.push(packet);
            continue;
        };
        if !is_data {
            continue;
        }
        *passed += 1;
        let at = packet.0;
        packets.push(packet);
        if *passed == 2 {
            packets.push((at, late.1.clone(), late.2));
            (held, swapped) = (None, swapped + 1);
        }
    }
    let found = of_bytes(&blocks(&packets, Endianness::Little, 9)).expect("a capture");
    let seen = &found.captured.connections;
    assert!(swapped > 30);
    assert_eq!((seen.reordered_packets[0], seen.lost_before_packets[0]), (Some(swapped), Some(0)));
    assert_eq!(found.tables.flows.retransmitted_packets[0], Some(0));
    assert!(seen.reordering_max_ms[0].is_some_and(|ms| (1.0..10.0).contains(&ms)));
}

#[test]
fn packets_that_the_host_joined_are_counted_as_segments() {
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"3 MB\"\n";
    let result = simulated("rate = \"10 Mbit/s\"\ndelay = \"40 ms\"", flow);
    let original = packets(capture(&result, "b"));
    let mut joined: Vec<Packet> = Vec::new();
    for packet in original {
        let is_full = |packet: &Packet| packet.2 == 1514;
        let number = |packet: &Packet| u32::from_be_bytes(packet.1[38..42].try_into().expect("four bytes"));
        let before = joined.last_mut().filter(|before| before.2 >= 1514 && before.2 < 12_000);
        match before {
            Some(before) if is_full(&packet) && number(before).wrapping_add(before.2 - 66) == number(&packet) => {
                before.2 += 1448;
                let total = (before.2 - 14) as u16;
                before.1[16..18].copy_from_slice(&total.to_be_bytes());
            }
            _ => joined.push(packet),
        }
    }
    let found = of_bytes(&blocks(&joined, Endianness::Little, 9)).expect("a capture");
    assert!(found.captured.connections.merged_packets[0] > Some(100));
    assert_eq!(found.tables.flows.sent_packets, result.tables.flows.sent_packets);
    assert_eq!(found.tables.flows.received_bytes, result.tables.flows.received_bytes);
}

#[test]
fn a_connection_without_its_beginning_is_measured_from_its_first_packet() {
    let result = download();
    let whole = packets(capture(&result, "a"));
    let rest = &whole[whole.len() / 3..];
    let found = of_bytes(&blocks(rest, Endianness::Little, 9)).expect("a capture");
    let flows = &found.tables.flows;
    assert_eq!((&*found.captured.connections.opened_by[0], flows.handshake_ms[0]), ("", None));
    assert_eq!(&*found.captured.connections.side[0], "sender");
    // How windows are scaled is unknown, so that none can be said to be full.
    assert_eq!(found.captured.connections.receive_window_max_bytes[0], None);
    assert!(found.captured.rounds.receiver_s.iter().all(|waited_s| *waited_s <= 0.0));
    assert!((1_500_000..2_500_000).contains(&flows.received_bytes[0]), "{}", flows.received_bytes[0]);
    assert!(flows.rtt_mean_ms[0].is_some_and(|ms| (82.0..100.0).contains(&ms)), "{:?}", flows.rtt_mean_ms[0]);
}

#[test]
fn a_clock_that_is_set_back_is_counted_and_time_goes_on() {
    let result = download();
    let mut packets = packets(capture(&result, "b"));
    let whole = of_bytes(&blocks(&packets, Endianness::Little, 9)).expect("a capture");
    let half = packets.len() / 2;
    for packet in &mut packets {
        packet.0 += 5_000_000_000_000;
    }
    for packet in &mut packets[half..] {
        packet.0 -= 3_600_000_000_000;
    }
    let found = of_bytes(&blocks(&packets, Endianness::Little, 9)).expect("a capture");
    assert_eq!(found.counts.clock_jumps, 1);
    let (duration, expected) = (found.tables.flows.duration_s[0], whole.tables.flows.duration_s[0]);
    assert!((duration - expected).abs() < 0.1, "{duration} for {expected}");
    assert_eq!(figures(&found).0, figures(&whole).0);
}

#[test]
fn a_packet_captured_at_two_devices_of_a_host_counts_once() {
    let result = download();
    let mut number = 0u16;
    let numbered = changed(&packets(capture(&result, "a")), |ip, _| {
        number += 1;
        ip[4..6].copy_from_slice(&number.to_be_bytes());
    });
    let twice: Vec<Packet> =
        numbered.iter().flat_map(|packet| [packet.clone(), (packet.0 + 20_000, packet.1.clone(), packet.2)]).collect();
    let found = of_bytes(&blocks(&twice, Endianness::Little, 9)).expect("a capture");
    assert_eq!(found.tables.flows.sent_packets, result.tables.flows.sent_packets);
    assert_eq!(found.tables.flows.retransmitted_packets, result.tables.flows.retransmitted_packets);
    assert_eq!(found.captured.connections.duplicated_packets[0], result.tables.flows.sent_packets[0]);
}

/// An IPv4 packet in an Ethernet frame: last bytes and port of the source, flags, payload that is not captured.
fn segment(host: u32, port: u16, flags: u8, payload: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((40 + payload).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 7]);
    frame.extend((host as u16).to_be_bytes());
    frame.extend([10, 0, 0, 1]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    frame
}

#[test]
fn very_many_connections_take_bounded_room_and_the_largest_are_measured() {
    const MANY: u32 = 200_000;
    let mut packets: Vec<Packet> = Vec::new();
    for number in 0..MANY {
        let at = u64::from(number) * 10_000;
        packets.push((at, segment(number >> 8, 1000 + (number & 255) as u16, 2, 0), 54));
        if number % 1000 == 0 {
            // Its data, before and behind.
            let payload = 1000 + (number / 1000) as u16;
            packets.push((
                at,
                segment(number >> 8, 1000 + (number & 255) as u16, 16, payload),
                54 + u32::from(payload),
            ));
        }
    }
    let found = of_bytes(&blocks(&packets, Endianness::Little, 9)).expect("a capture");
    assert_eq!((found.connections, found.measured), (u64::from(MANY), 100));
    assert!(found.pushed_out >= 65_536, "{}", found.pushed_out);
    let sizes = &found.tables.flows.sent_packets;
    assert_eq!(sizes.len(), 100);
    // There are 200 connections with data; the hundred with the most data are kept.
    let kept: Vec<u64> = found.captured.connections.segment_bytes.iter().map(|bytes| u64::from(*bytes)).collect();
    assert!(kept.iter().all(|bytes| *bytes >= 1100), "{kept:?}");
    assert_eq!(found.other_payload_bytes, (1000..1100).sum::<u64>());
}

#[test]
fn datagrams_are_counted_with_what_passed() {
    let flow = "[[flows]]\nname = \"u\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"2 Mbit/s\"\n\
        packet = \"500 B\"\nduration = \"5 s\"\n";
    let result = simulated("rate = \"10 Mbit/s\"\ndelay = \"40 ms\"\nloss = \"1 %\"", flow);
    let found = of_bytes(capture(&result, "b")).expect("a capture");
    let (flows, sim) = (&found.tables.flows, &result.tables.flows);
    assert_eq!((&*flows.kind[0], flows.received_bytes[0], found.udp), ("udp", sim.received_bytes[0], 1));
    let [ours, theirs] = [flows, sim].map(|flows| flows.goodput_mbps[0].expect("a goodput"));
    assert!((ours / theirs - 1.0).abs() < 0.02, "{ours}");
    assert_eq!((flows.lost_packets[0], flows.retransmitted_packets[0]), (None, None));
}

#[test]
fn the_same_over_ipv6_gives_the_same_figures() {
    let result = download();
    let original = packets(capture(&result, "b"));
    let expected = figures(&of_bytes(&blocks(&original, Endianness::Little, 9)).expect("a capture"));
    let over_6: Vec<Packet> = original
        .iter()
        .map(|(at, data, wire)| {
            let (ip, inside) = data[14..].split_at(20);
            let mut frame = [&data[..12], &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
            frame.extend(((wire - 34) as u16).to_be_bytes());
            frame.extend([6, 64]);
            for address in [&ip[12..16], &ip[16..20]] {
                frame.extend([&[0xfd; 12], address].concat());
            }
            frame.extend(inside);
            (*at, frame, wire + 20)
        })
        .collect();
    let found = of_bytes(&blocks(&over_6, Endianness::Little, 9)).expect("a capture");
    assert_eq!(figures(&found), expected);
    assert!(found.tables.flows.flow[0].starts_with("[fdfd:"), "{}", found.tables.flows.flow[0]);
}

#[test]
fn interfaces_that_share_the_packets_are_added_and_those_that_show_the_same_are_not() {
    let result = download();
    let original = packets(capture(&result, "b"));
    let expected = figures(&of_bytes(&blocks(&original, Endianness::Little, 9)).expect("a capture"));
    let shared = of_bytes(&blocks_of(&original, Endianness::Little, 9, 2)).expect("a capture");
    assert_eq!(figures(&shared), expected);
    let twice: Vec<Packet> =
        original.iter().flat_map(|packet| [packet.clone(), (packet.0 + 90_000, packet.1.clone(), packet.2)]).collect();
    let same = figures(&of_bytes(&blocks_of(&twice, Endianness::Little, 9, 2)).expect("a capture"));
    assert_eq!((same.0, same.1, same.2), (expected.0, expected.1, expected.2));
}
