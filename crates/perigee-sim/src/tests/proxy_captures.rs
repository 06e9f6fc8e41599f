//! Captures and logs of a flow split by two proxies: each node sees its own legs, with the addresses and ports of the two ends.

use std::collections::{BTreeMap, BTreeSet};

use super::captures::packets;
use super::proxies::{download, gateway, network, terminal, GEO};
use super::{carry_out, plan};
use crate::carriage::Carriage;
use crate::RunResult;

const SERVER: ([u8; 4], u16) = ([10, 71, 0, 1], 5201);
const CLIENT: [u8; 4] = [10, 71, 0, 4];
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A download over three legs with losses on the satellite.
fn captured() -> RunResult {
    let satellite = format!("{GEO}\nloss = \"0.5 %\"");
    let text = network(&satellite, &(gateway("") + &terminal("")), &download("size = \"300 kB\"")).replacen(
        "[measure]",
        "[measure]\nevents = true\npcap = [\"server\", \"gateway\", \"terminal\", \"client\"]",
        1,
    );
    carry_out(&plan(&text), Carriage::default()).expect("the run succeeds")
}

/// Source and destination, sequence number, flags and payload of a captured segment.
struct Seen {
    ends: [([u8; 4], u16); 2],
    sequence: u32,
    flags: u8,
    payload: u32,
}

fn seen(data: &[u8], original: u32) -> Seen {
    let (ip, tcp) = data[14..].split_at(20);
    let address = |at: usize| [ip[at], ip[at + 1], ip[at + 2], ip[at + 3]];
    let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    Seen {
        ends: [(address(12), port(0)), (address(16), port(2))],
        sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
        flags: tcp[13],
        payload: original - 14 - 20 - u32::from(tcp[12] >> 4) * 4,
    }
}

#[test]
fn each_node_captures_its_own_legs_with_the_addresses_of_the_two_ends() {
    let (mut opened, mut clients) = (BTreeMap::new(), BTreeSet::new());
    for capture in captured().captures {
        let legs = if matches!(&*capture.node, "server" | "client") { 1 } else { 2 };
        let (mut requests, mut answers, mut data) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        for (_, bytes, original) in packets(&capture.pcapng) {
            let segment = seen(&bytes, original);
            let [from, to] = segment.ends;
            let client = if from == SERVER { to } else { from };
            assert!(client.0 == CLIENT && (from == SERVER || to == SERVER), "{:?}", segment.ends);
            clients.insert(client.1);
            match segment.flags & (SYN | ACK) {
                SYN => drop(requests.insert(segment.sequence)),
                ACK => {}
                _ => drop(answers.insert(segment.sequence)),
            }
            if segment.payload > 0 {
                assert_eq!(from, SERVER, "the server sends the data");
                data.insert(segment.sequence, segment.payload);
            }
        }
        // Each leg has its own initial sequence numbers.
        assert_eq!((requests.len(), answers.len()), (legs, legs), "legs at {}", capture.node);
        assert_eq!(data.values().sum::<u32>(), 300_000 * legs as u32, "payload at {}", capture.node);
        opened.insert(capture.node.to_string(), requests);
    }
    // The run draws the client's port.
    assert!(clients.len() == 1 && clients.first() >= Some(&49_152), "{clients:?}");
    assert!(opened["gateway"].is_superset(&opened["server"]) && opened["terminal"].is_superset(&opened["client"]));
    let satellite: Vec<_> = opened["gateway"].intersection(&opened["terminal"]).collect();
    assert_eq!(satellite.len(), 1, "the two proxies share the leg between them");
}

#[test]
fn the_event_log_has_every_leg_by_its_number() {
    let tables = captured().tables;
    let mut sent: BTreeMap<Option<u32>, u64> = BTreeMap::new();
    for ((leg, event), bytes) in tables.events.leg.iter().zip(&tables.events.event).zip(&tables.events.segment_bytes) {
        if &**event == "sent" {
            *sent.entry(*leg).or_default() += u64::from(*bytes);
        }
    }
    let legs = [Some(1), Some(2), Some(3)];
    assert_eq!(sent.keys().copied().collect::<Vec<_>>(), legs);
    for leg in legs {
        let repeated = if leg == Some(2) { 100_000 } else { 0 };
        assert!((300_000..=300_000 + repeated).contains(&sent[&leg]), "leg {leg:?} sent {} B", sent[&leg]);
    }
}
