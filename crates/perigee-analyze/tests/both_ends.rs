//! Captures of both ends of a connection: the exact losses of the path.

use crate::common::{capture, classic, of_files, packets, simulated, Folder, Packet};
use pcap_file::Endianness;
use perigee_analyze::Analysis;
use perigee_sim::RunResult;

fn run(rest: &str) -> RunResult {
    let link = "rate = \"10 Mbit/s\"\ndelay = \"60 ms\"\nup = { loss = \"1 %\" }\ndown = { loss = \"1 %\" }";
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"8.1 MB\"\n";
    let link = link.replace("up = {", "up = { rate = \"10 Mbit/s\", delay = \"60 ms\",");
    let link = link.replace("down = {", "down = { rate = \"10 Mbit/s\", delay = \"60 ms\",");
    simulated(link.split_once("60 ms\"\n").expect("two parts").1, &format!("{rest}\n{flow}"))
}

/// Packets lost on the simulated link, down and up.
fn truth(result: &RunResult) -> (u64, u64) {
    let links = &result.tables.links;
    let of = |name: &str| {
        let rows = links.link.iter().zip(&links.dropped_packets).filter(|(link, _)| &***link == name);
        rows.map(|(_, dropped)| dropped).sum()
    };
    (of("bottleneck.down"), of("bottleneck.up"))
}

fn matched(analysis: &Analysis) -> (u64, u64) {
    let seen = &analysis.captured.connections;
    (seen.matched_lost_packets[0].expect("matched"), seen.matched_lost_acknowledgements[0].expect("matched"))
}

#[test]
fn losses_between_two_captures_are_those_of_the_link() {
    for rest in ["", "[hosts]\ntimestamps = false", "[hosts]\nsack = false"] {
        let result = run(rest);
        let folder = Folder::new();
        let files = ["a", "b"].map(|node| folder.file(&format!("{node}.pcapng"), capture(&result, node)));
        let found = of_files(&[&files[0], &files[1]]).expect("two captures");
        let expected = truth(&result);
        assert!(expected.0 > 30 && expected.1 > 10, "{expected:?}");
        assert_eq!(matched(&found[0]), expected, "{rest}");
        assert_eq!(matched(&found[1]), expected, "{rest}");
        let losses = &found[0].captured.losses;
        let exact = losses.how.iter().zip(&losses.packets).filter(|(how, _)| &***how == "matched");
        assert_eq!(exact.map(|(_, packets)| u64::from(*packets)).sum::<u64>(), expected.0);
        assert!(found[1].captured.losses.how.iter().all(|how| &**how != "matched"), "told once, where it was sent");
        let sent = found[0].captured.connections.matched_packets[0];
        assert_eq!(sent, result.tables.flows.sent_packets[0], "{rest}");
    }
}

#[test]
fn clocks_that_differ_change_nothing_and_order_of_files_neither() {
    let result = run("");
    let folder = Folder::new();
    let mut late = classic(capture(&result, "b"), 113, false, 1_000);
    for start in crate::common::records(&late) {
        let seconds = u32::from_le_bytes(late[start..start + 4].try_into().expect("four bytes")) + 86_400;
        late[start..start + 4].copy_from_slice(&seconds.to_le_bytes());
    }
    let files = [folder.file("b.pcap", &late), folder.file("a.pcapng", capture(&result, "a"))];
    let found = of_files(&[&files[0], &files[1]]).expect("two captures");
    assert_eq!((matched(&found[0]), matched(&found[1])), (truth(&result), truth(&result)));
}

#[test]
fn what_one_capture_does_not_cover_is_not_lost() {
    let result = run("");
    let folder = Folder::new();
    let whole = capture(&result, "b");
    let plain = classic(whole, 1, false, 1);
    let starts = crate::common::records(&plain);
    let half = starts[packets(whole).len() / 2];
    let files = [folder.file("a.pcapng", capture(&result, "a")), folder.file("b.pcap", &plain[..half])];
    let found = of_files(&[&files[0], &files[1]]).expect("two captures");
    let (lost, truth) = (matched(&found[0]).0, truth(&result).0);
    assert!(lost > truth / 4 && lost < truth * 3 / 4, "{lost} of {truth}");
}

#[test]
fn one_capture_given_twice_is_no_pair() {
    let result = run("");
    let folder = Folder::new();
    let file = folder.file("a.pcapng", capture(&result, "a"));
    let found = of_files(&[&file, &file]).expect("two captures");
    assert_eq!(found[0].captured.connections.matched_packets[0], None);
}

#[test]
fn losses_stand_at_the_time_when_the_link_lost_them() {
    let result = run("");
    let folder = Folder::new();
    let files = ["a", "b"].map(|node| folder.file(&format!("{node}.pcapng"), capture(&result, node)));
    let found = of_files(&[&files[0], &files[1]]).expect("two captures").remove(0);
    let (losses, began) = (&found.captured.losses, found.captured.connections.began_unix_s[0]);
    let matched: Vec<usize> = (0..losses.how.len()).filter(|row| &*losses.how[*row] == "matched").collect();
    // The link counts per second of the run; packets reach it a millisecond after they are sent.
    let links = &result.tables.links;
    let (mut right, mut intervals) = (0, 0);
    for (row, _) in links.link.iter().enumerate().filter(|(_, link)| &***link == "bottleneck.down") {
        let within = |at: f64| links.t_s[row] - 1.0 < at + 0.001 && at + 0.001 <= links.t_s[row];
        let events = matched.iter().filter(|loss| within(losses.t_s[**loss] + began));
        let lost: u64 = events.map(|loss| u64::from(losses.packets[*loss])).sum();
        intervals += 1;
        right += u64::from(lost == links.dropped_packets[row]);
    }
    assert!(intervals > 5 && right + 1 >= intervals, "{right} of {intervals} seconds");
    // The sender's capture alone gives the same, except for lost retransmissions.
    let again = |loss: &&usize| {
        let same = |row: usize| {
            losses.offset_bytes[row] == losses.offset_bytes[**loss]
                && (losses.t_s[row] - losses.t_s[**loss]).abs() < 1e-6
        };
        (0..losses.how.len()).any(|row| &*losses.how[row] == "sent_again" && same(row))
    };
    let known = matched.iter().filter(again).count();
    assert!(known * 10 >= matched.len() * 9, "{known} of {}", matched.len());
}

/// A download over the same path with another congestion control: its captures at both ends.
fn download(control: &str, hosts: &str) -> RunResult {
    let flow =
        format!("{hosts}\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"3 MB\"\ncc = \"{control}\"\n");
    simulated("rate = \"10 Mbit/s\"\ndelay = \"300 ms\"\nloss = \"0.1 %\"", &flow)
}

/// The capture of a node with the client's port and the first sequence numbers of another run's.
fn renamed(packets: &[Packet], to: &[Packet]) -> Vec<u8> {
    let client = |packet: &[u8]| {
        u16::from_be_bytes(if is_down(packet) { [packet[36], packet[37]] } else { [packet[34], packet[35]] })
    };
    let firsts = |packets: &[Packet]| {
        [true, false].map(|down| {
            let syn = packets.iter().find(|packet| is_down(&packet.1) == down && packet.1[47] & 2 != 0).expect("a SYN");
            u32::from_be_bytes(syn.1[38..42].try_into().expect("four bytes"))
        })
    };
    let (from, port) = (firsts(packets), client(&to[0].1));
    let shifts = [0, 1].map(|way: usize| firsts(to)[way].wrapping_sub(from[way]));
    let add = |word: &mut [u8], number: u32| {
        let sum = u32::from_be_bytes(word.try_into().expect("four bytes")).wrapping_add(number);
        word.copy_from_slice(&sum.to_be_bytes());
    };
    let mut packets = packets.to_vec();
    for (_, data, _) in &mut packets {
        let down = is_down(data);
        let at = if down { 36 } else { 34 };
        data[at..at + 2].copy_from_slice(&port.to_be_bytes());
        let [own, other] = if down { shifts } else { [shifts[1], shifts[0]] };
        add(&mut data[38..42], own);
        if data[47] & 16 != 0 {
            add(&mut data[42..46], other);
        }
        for edge in crate::common::sack_edges(&data[34..]) {
            add(&mut data[34 + edge..38 + edge], other);
        }
    }
    crate::common::blocks(&packets, Endianness::Little, 9)
}

/// Whether a packet comes from node a.
fn is_down(packet: &[u8]) -> bool {
    packet[26..30] == [10, 71, 0, 1]
}

#[test]
fn captures_of_two_runs_with_equal_names_are_two_connections() {
    for hosts in ["", "[hosts]\ntimestamps = false"] {
        let (first, second) = (download("cubic", hosts), download("bbr", hosts));
        let at_sender = packets(capture(&first, "a"));
        let folder = Folder::new();
        let own = folder.file("a.pcapng", capture(&first, "a"));
        for (result, is_same) in [(&first, true), (&second, false)] {
            let other = renamed(&packets(capture(result, "b")), &at_sender);
            let found = of_files(&[&own, &folder.file("b.pcapng", &other)]).expect("two captures");
            for analysis in &found {
                let seen = &analysis.captured.connections;
                assert_eq!(
                    (seen.matched_packets[0].is_some(), analysis.unlike),
                    (is_same, u64::from(!is_same)),
                    "{hosts}"
                );
            }
            // A capture gives the same results alone and beside a stranger.
            let alone = of_files(&[&own]).expect("a capture");
            assert_eq!(found[0].captured.connections.side, alone[0].captured.connections.side);
            assert_eq!(found[0].tables.flows.rtt_mean_ms, alone[0].tables.flows.rtt_mean_ms);
        }
    }
}

#[test]
fn runs_of_one_round_have_connections_of_their_own() {
    let (first, second) = (download("cubic", ""), download("bbr", ""));
    let folder = Folder::new();
    let files = [folder.file("a.pcapng", capture(&first, "a")), folder.file("b.pcapng", capture(&second, "b"))];
    let found = of_files(&[&files[0], &files[1]]).expect("two captures");
    assert_ne!(found[0].tables.flows.flow[0], found[1].tables.flows.flow[0]);
    assert_eq!((found[0].unlike, found[0].captured.connections.matched_packets[0]), (0, None));
    // Measurements and the way packets are carried change nothing in a capture.
    let plain = download("cubic", "series = \"1 s\"\nevents = true");
    assert_eq!(capture(&plain, "a"), capture(&first, "a"));
}
