//! Trains made packets, and joined again.

use perigee_units::Stream;

use super::*;
use crate::{address, IpVersion, Packet, Tcp, Transport};

const VERSIONS: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];
const MSS: u16 = 1428;

/// A packet with this payload, as a network card would get it: without TCP's checksum.
fn packet(ip: IpVersion, tcp: Tcp, payload: &[u8]) -> Vec<u8> {
    let headers = u32::from(ip.header_bytes()) + 32;
    let [source, destination] = [0, 1].map(|node| address(node, ip));
    let tcp = Tcp { payload: payload.len() as u32, timestamps: Some((7, 8)), ..tcp };
    let (bytes, transport) = (headers + payload.len() as u32, Transport::Tcp(tcp));
    let mut packet = Vec::new();
    Packet { source, destination, bytes, ecn: 2, identification: 65_530, transport }.write(&mut packet);
    packet.extend(payload);
    let headers = Headers::read(&packet).expect("TCP");
    headers.write_pseudo_sum(&mut packet);
    packet
}

fn bytes(count: usize) -> Vec<u8> {
    let mut stream = Stream::new(5, "payload");
    (0..count).map(|_| stream.below(256) as u8).collect()
}

/// The packets of the wire of a packet from the kernel.
fn departed(packet: &[u8], offload: Offload) -> Vec<Vec<u8>> {
    let mut departing = Departing::default();
    departing.room()[..packet.len()].copy_from_slice(packet);
    departing.begin(packet.len(), offload);
    let mut out = [0; 1500];
    std::iter::from_fn(|| departing.next(&mut out).map(|size| out[..size].to_vec())).collect()
}

fn train(ip: IpVersion) -> Offload {
    Offload { checksum: Some((ip.header_bytes(), 16)), segment: Some(MSS) }
}

/// Whether the IP header and TCP have the right checksums.
fn is_intact(packet: &[u8]) -> bool {
    let headers = Headers::read(packet).expect("TCP");
    let mut copy = packet.to_vec();
    headers.write_pseudo_sum(&mut copy);
    let pseudo = &copy[headers.tcp + CHECKSUM..headers.tcp + CHECKSUM + 2];
    let tcp = Sum16BitWords::new().add_2bytes([pseudo[0], pseudo[1]]).add_slice(&packet[headers.tcp..]);
    let is_tcp = tcp.ones_complement() == 0;
    is_tcp && (!headers.is_v4 || Sum16BitWords::new().add_slice(&packet[..headers.tcp]).ones_complement() == 0)
}

fn tcp_of(packet: &[u8]) -> (Packet, Tcp) {
    match Packet::read(packet) {
        Some(packet @ Packet { transport: Transport::Tcp(tcp), .. }) => (packet, tcp),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_train_leaves_as_the_segments_that_tcp_would_have_sent() {
    for ip in VERSIONS {
        let payload = bytes(3 * usize::from(MSS) + 100);
        let first = u32::MAX - 2000;
        let tcp = Tcp { sequence: first, acknowledgement: Some(9), psh: true, fin: true, cwr: true, ..Tcp::default() };
        let packets = departed(&packet(ip, tcp, &payload), train(ip));
        assert_eq!(packets.len(), 4);
        let mut sent: Vec<u8> = Vec::new();
        for (number, bytes) in packets.iter().enumerate() {
            let (packet, tcp) = tcp_of(bytes);
            assert!(is_intact(bytes), "{ip:?}, number {number}");
            assert_eq!(packet.bytes as usize, bytes.len());
            assert_eq!(tcp.sequence, first.wrapping_add(sent.len() as u32));
            assert_eq!((tcp.psh, tcp.fin, tcp.cwr), (number == 3, number == 3, number == 0));
            assert_eq!((packet.ecn, tcp.timestamps, tcp.acknowledgement), (2, Some((7, 8)), Some(9)));
            let numbered = u16::from(ip == IpVersion::V4) * 65_530_u16.wrapping_add(number as u16);
            assert_eq!(packet.identification, numbered);
            sent.extend(&bytes[bytes.len() - tcp.payload as usize..]);
        }
        assert!(sent == payload);
    }
}

#[test]
fn what_is_no_train_gets_its_checksum_and_is_not_changed_otherwise() {
    for ip in VERSIONS {
        let syn = packet(ip, Tcp { syn: true, ..Tcp::default() }, &[]);
        let start = ip.header_bytes();
        let done = departed(&syn, Offload { checksum: Some((start, 16)), segment: None });
        assert!(is_intact(&done[0]));
        assert_eq!(tcp_of(&done[0]), tcp_of(&syn));
        assert_eq!(departed(&syn, Offload::default()), [syn]);
    }
}

#[test]
fn a_datagram_whose_checksum_is_zero_has_the_other_zero() {
    // The payload makes the sum of all words 0xffff.
    let mut datagram = vec![0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    datagram.extend([0, 1, 0, 2, 0, 10, 0, 0, 0xff, 0xf2]);
    let done = departed(&datagram, Offload { checksum: Some((20, 6)), segment: None });
    assert_eq!(done[0][26..28], [0xff, 0xff]);
}

#[test]
fn nonsense_from_a_device_is_lost() {
    let ip = IpVersion::V4;
    let whole = packet(ip, Tcp::default(), &bytes(4000));
    let none: [Vec<u8>; 0] = [];
    // Segments larger than the link's MTU, of no size, of a fragment, and of what is not TCP.
    let larger = departed(&whole, Offload { segment: Some(1460), ..train(ip) });
    assert_eq!(larger.iter().map(Vec::len).collect::<Vec<_>>(), [52 + 4000 - 2 * 1460]);
    assert_eq!(departed(&whole, Offload { segment: Some(0), ..train(ip) }), none);
    let changed = |at: usize, to: u8| {
        let mut packet = whole.clone();
        packet[at] = to;
        departed(&packet, train(ip))
    };
    assert_eq!((changed(6, 0x20), changed(9, 17), changed(0, 0x46)), (vec![], vec![], vec![]));
    // A checksum outside of the packet.
    for checksum in [(39, 60), (5000, 0), (60_000, 60_000)] {
        assert_eq!(departed(&whole[..60], Offload { checksum: Some(checksum), segment: None }), none);
    }
    assert_eq!(departed(&[], Offload::default()), none);
}

/// Segments in order, with whole checksums.
fn segments(ip: IpVersion, tcp: Tcp, payload: usize) -> Vec<Vec<u8>> {
    departed(&packet(ip, Tcp { acknowledgement: Some(9), ..tcp }, &bytes(payload)), train(ip))
}

/// Joins packets behind the first of them, as long as they follow; how many did.
fn joined(packets: &[Vec<u8>]) -> (Joined, usize) {
    let mut joined = Joined::default();
    joined.follow(&packets[0]);
    let count = packets[1..].iter().take_while(|packet| joined.push(packet)).count();
    (joined, count)
}

#[test]
fn joined_segments_are_the_train_they_were() {
    for ip in VERSIONS {
        for psh in [false, true] {
            let tcp = Tcp { acknowledgement: Some(9), psh, sequence: u32::MAX - 500, ..Tcp::default() };
            let segments = departed(&packet(ip, tcp, &bytes(6 * usize::from(MSS) + 7)), train(ip));
            let (mut joined, count) = joined(&segments);
            assert_eq!(count, 6);
            assert!(!joined.push(&segments[1]), "a short segment is the last");
            let whole = joined.take().map(|(offload, whole)| (offload, whole.to_vec())).expect("a train");
            assert_eq!(whole.0, train(ip));
            assert!(departed(&whole.1, whole.0) == segments[1..], "{ip:?}");
            assert!(joined.is_empty() && joined.take().is_none() && !joined.push(&segments[1]));
        }
    }
}

#[test]
fn one_segment_stays_as_it_is_and_the_first_is_not_among_them() {
    for ip in VERSIONS {
        let segments = segments(ip, Tcp::default(), 2 * usize::from(MSS));
        let (mut joined, _) = joined(&segments);
        assert!(joined.take() == Some((Offload::default(), &segments[1][..])));
        joined.follow(&segments[0]);
        assert_eq!(joined.take(), None);
        // Neither IP nor whole.
        for odd in [&segments[0][..30], &[1, 2, 3][..], &[]] {
            joined.follow(odd);
            assert!(!joined.push(odd) && !joined.push(&segments[1]) && joined.is_empty());
        }
    }
}

#[test]
fn what_differs_or_does_not_follow_is_not_joined() {
    for ip in VERSIONS {
        let train = segments(ip, Tcp::default(), 4 * usize::from(MSS));
        let tcp = usize::from(ip.header_bytes());
        let joins = |first: &[u8], second: &[u8]| joined(&[first.to_vec(), second.to_vec()]).1 == 1;
        assert!(joins(&train[0], &train[1]));
        assert!(!joins(&train[0], &train[2]), "a gap");
        assert!(!joins(&train[1], &train[0]), "out of order");
        let ack = Tcp { sequence: u32::from(MSS), acknowledgement: Some(9), ..Tcp::default() };
        assert!(!joins(&train[0], &packet(ip, ack, &[])), "an acknowledgement");
        // Congestion experienced, TTL, a port, the acknowledgement, CWR, FIN, the window, a timestamp; but not PSH of the second.
        let ttl = if ip == IpVersion::V4 { 8 } else { 7 };
        for (at, bit) in [(1, 0x10), (1, 1), (ttl, 1), (tcp, 1), (tcp + 11, 1), (tcp + 13, CWR), (tcp + 13, FIN)]
            .into_iter()
            .chain([(tcp + 14, 1), (tcp + 27, 1)])
        {
            let mut changed = train[1].clone();
            changed[at] ^= bit;
            assert!(!joins(&train[0], &changed), "{ip:?}, byte {at}");
        }
        let mut pushed = train[1].clone();
        pushed[tcp + 13] |= PSH;
        assert!(joins(&train[0], &pushed) && !joins(&pushed, &train[2]));
        // A segment larger than the first would not be one of its train.
        let larger = segments(ip, Tcp { sequence: 100, ..Tcp::default() }, 400);
        assert!(!joins(&segments(ip, Tcp::default(), 100)[0], &larger[0]));
    }
}

#[test]
fn a_joined_packet_has_at_most_the_largest_size() {
    let ip = IpVersion::V4;
    let mut all = segments(ip, Tcp::default(), 40 * usize::from(MSS));
    let more = Tcp { sequence: 40 * u32::from(MSS), ..Tcp::default() };
    all.extend(segments(ip, more, 10 * usize::from(MSS)));
    let (mut joined, count) = joined(&all);
    assert_eq!(count, (LARGEST - 52) / usize::from(MSS));
    let whole = joined.take().expect("a train").1;
    assert_eq!(Packet::read(whole).map(|packet| packet.bytes as usize), Some(52 + count * usize::from(MSS)));
}
