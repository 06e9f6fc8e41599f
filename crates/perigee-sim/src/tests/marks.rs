//! Step marking under DCTCP: the queue it leaves, the marks that ACKs tell of, and the same run by every carriage.

use perigee_results::Tables;

use super::captures::packets;
use super::{carry_out, plan, result, through_router};
use crate::carriage::Carriage;

/// A run of 20 s over 20 Mbit/s and a round trip of 42 ms; packets that waited longer than this, us, are marked.
fn text(aqm: &str, threshold_us: u64, count: u32, cc: &str) -> String {
    through_router(
        &format!(
            "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\n\
             queue = {{ bytes = \"1 MB\", aqm = {{ kind = \"{aqm}\", target = \"10 s\", ce_threshold = \"{threshold_us} us\" }} }}"
        ),
        &format!(
            "[measure]\nseries = \"100 ms\"\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncount = {count}\n\
             duration = \"20 s\"\ncc = \"{cc}\""
        ),
    )
}

/// The mean wait in the second half of a run, ms: a byte takes 0.4 us.
fn wait_ms(tables: &Tables) -> f64 {
    let links = &tables.links;
    let rows = links.link.iter().zip(&links.t_s).zip(&links.queue_bytes);
    let late = rows.filter(|((link, t), _)| &***link == "bottleneck.down" && **t > 10.0);
    let waits: Vec<f64> = late.map(|(_, bytes)| *bytes as f64 * 0.4e-3).collect();
    waits.iter().sum::<f64>() / waits.len() as f64
}

#[test]
fn the_queue_stays_at_the_step() {
    for aqm in ["codel", "fq-codel"] {
        for (threshold_us, count) in [(3_000, 1), (10_000, 1), (3_000, 4), (10_000, 4)] {
            let tables = result(&text(aqm, threshold_us, count, "dctcp")).tables;
            let (wait, step) = (wait_ms(&tables), threshold_us as f64 / 1e3);
            assert!(
                (0.4 * step..1.5 * step).contains(&wait),
                "{aqm}, {count} flows: {wait} ms with a step at {step} ms"
            );
            let goodput: f64 = tables.flows.goodput_mbps.iter().flatten().sum();
            assert!(goodput > 17.0, "{aqm}, {count} flows: {goodput} Mbit/s of 20 with a step at {step} ms");
            assert_eq!(tables.links.dropped_packets.iter().sum::<u64>(), 0);
            assert_eq!(tables.flows.retransmitted_packets.iter().flatten().sum::<u64>(), 0);
        }
    }
}

#[test]
fn a_step_is_nothing_to_packets_that_cannot_be_marked() {
    // Without ECN only the end of the queue stops Reno.
    let tables = result(&text("codel", 3_000, 1, "reno")).tables;
    assert!(wait_ms(&tables) > 30.0, "{} ms", wait_ms(&tables));
}

/// Bytes of a capture as a number.
fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

#[test]
fn delayed_acks_tell_the_exact_number_of_marked_segments() {
    for (threshold_us, offload) in [(5_000, "1 ms"), (2_000, "0 us"), (5_000, "0 us")] {
        let hosts = format!("[hosts]\nreceive_offload = \"{offload}\"\n[measure]\npcap = [\"b\"]\n");
        let text = text("codel", threshold_us, 1, "dctcp").replace("[measure]\n", &hosts);
        let captures = carry_out(&plan(&text), Carriage::default()).expect("the run succeeds").captures;
        let (mut arrived, mut told, mut acks, mut next) = ([0_u64; 2], [0_u64; 2], 0_u64, None);
        for (_, frame, length) in packets(&captures[0].pcapng) {
            let (ip, tcp) = (&frame[14..34], &frame[34..]);
            let payload = u64::from(length) - 34 - u64::from(tcp[12] >> 4) * 4;
            assert_ne!(ip[1] & 3, 0, "every packet is ECT");
            if payload > 0 {
                next = next.or(Some(number(&tcp[4..8])));
                arrived[usize::from(ip[1] & 3 == 3)] += payload;
            } else if let Some(from) = next.filter(|from| (number(&tcp[8..12]).wrapping_sub(*from) as i32) > 0) {
                let to = number(&tcp[8..12]);
                told[usize::from(tcp[13] & 0x40 != 0)] += u64::from(to.wrapping_sub(from));
                (acks, next) = (acks + 1, Some(to));
            }
        }
        let waiting = arrived[0] + arrived[1] - told[0] - told[1];
        assert!(waiting <= 2 * 1448, "{waiting} bytes are not acknowledged");
        assert!(
            arrived[1].abs_diff(told[1]) <= waiting,
            "{offload} step at {threshold_us} us: {arrived:?} arrived, {told:?} told"
        );
        assert!(arrived[1] > 100 * 1448, "{} bytes were marked", arrived[1]);
        assert!(acks < (arrived[0] + arrived[1]) / 1448 * 3 / 4, "{acks} ACKs: they are delayed");
    }
}

#[test]
fn every_carriage_gives_the_same_tables() {
    let flows = "[[flows]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"b\"\nto = \"a\"\ninterval = \"20 ms\"\n\
        packet = \"64 B\"\nrepeat = 99\n";
    for aqm in ["codel", "fq-codel"] {
        let run = plan(&(text(aqm, 4_000, 2, "dctcp") + "\n" + flows));
        let stored = Carriage { links_store_packets: true, ..Carriage::default() };
        let [ours, stored, plain] = [Carriage::default(), stored, Carriage::PLAIN]
            .map(|carriage| carry_out(&run, carriage).expect("the run succeeds").tables);
        assert!(ours == stored && ours == plain, "{aqm}");
    }
}
