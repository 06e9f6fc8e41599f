//! Recordings of a run on the real kernel: captures and the event log of TCP.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};

use perigee_emu::{check, run, CaptureFiles, RunError};
use perigee_results::Tables;
use perigee_study::{Overrides, Run, Study};

/// A download that loses packets, over a router.
fn plan(measure: &str, flow: &str) -> Run {
    let text = format!(
        r#"
name = "recordings"
nodes = ["server", "router", "client"]
[measure]
{measure}
[[links]]
name = "wire"
between = ["server", "router"]
rate = "1 Gbit/s"
delay = "1 ms"
[[links]]
name = "satellite"
between = ["router", "client"]
down = {{ rate = "20 Mbit/s", delay = "20 ms", loss = "1 %" }}
up = {{ rate = "20 Mbit/s", delay = "20 ms" }}
[[flows]]
name = "download"
from = "server"
to = "client"
cc = "cubic"
{flow}
"#
    );
    let study = Study::parse(&text, "recordings.toml").unwrap_or_else(|error| panic!("{error}"));
    let mut none = |file: &str| Err(format!("{file} is not needed here"));
    study.plan(&Overrides::default(), &mut none).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

/// Emulates a run; prints the reason and returns `None` where this machine cannot.
fn emulate(plan: &Run, folder: &Path) -> Option<Tables> {
    let files = CaptureFiles { folder, prefix: "run-" };
    let done = check(plan).and_then(|()| run(plan, &files, &mut |_| ControlFlow::Continue(())));
    match done {
        Ok((tables, _)) => Some(tables),
        Err(error) if error.is_wrong_input() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The fields of each packet of a file that passes tshark's filter; prints a note and returns `None` without tshark.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    if Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("skipped: tshark is not installed");
        return None;
    }
    let mut command = Command::new("tshark");
    command.args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-T", "fields", "-Y", filter, "-r"]);
    command.arg(file);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

#[test]
fn captures_show_what_the_run_counted_and_tshark_finds_nothing_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan("pcap = true", "size = \"2 MB\"");
    let Some(tables) = emulate(&plan, folder.path()) else { return };
    let names = || {
        let entries = fs::read_dir(folder.path()).expect("the folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["run-client.pcapng", "run-router.pcapng", "run-server.pcapng"]);
    assert!(tables.gaps.run.is_empty(), "packets are missing");
    let data = "tcp.srcport == 5201 and tcp.len > 0";
    let server = folder.path().join("run-server.pcapng");
    let Some(sent) = tshark(&server, data, &["tcp.seq", "frame.time_epoch"]) else { return };
    assert_eq!(sent.len() as u64, tables.flows.sent_packets[0].expect("a count"), "data packets that left the server");
    let distinct: BTreeSet<_> = sent.iter().map(|row| &row[0]).collect();
    let counted = tables.flows.retransmitted_packets[0].expect("a count");
    assert!(counted > 0, "no packet was lost");
    assert_eq!((sent.len() - distinct.len()) as u64, counted, "data packets that left the server again");
    let router = folder.path().join("run-router.pcapng");
    let twice = tshark(&router, data, &["frame.interface_name"]).expect("tshark");
    let interfaces: Vec<_> = ["wire", "satellite"].map(|name| twice.iter().filter(|row| row[0] == name).count()).into();
    assert_eq!(interfaces, [sent.len(), sent.len()], "a router shows a packet on both sides");
    for node in ["server", "router", "client"] {
        let file = folder.path().join(format!("run-{node}.pcapng"));
        // Linux writes a checksum of zero as 0xffff (`skb_checksum_help`), which tshark reports as bad: one packet in 65,536.
        let bad =
            "ip.checksum.status == Bad or (tcp.checksum.status == Bad and tcp.checksum != 0xffff) or _ws.malformed";
        let shown = ["frame.len", "tcp.flags.str", "tcp.seq", "tcp.checksum.status", "ip.checksum.status"];
        assert_eq!(tshark(&file, bad, &shown).expect("tshark"), [[""; 0]; 0], "{node}");
        let whole = tshark(&file, "tcp.checksum.status == Good", &["frame.number"]).expect("tshark");
        assert!(whole.len() > 300, "only {} packets had a checksum that could be looked at", whole.len());
    }
    let epoch: f64 = sent[0][1].parse().expect("an instant");
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec as f64;
    assert!((now - epoch).abs() < 600.0, "the time of day is {now}, in the capture {epoch}");
}

#[test]
fn the_event_log_agrees_with_the_counters_of_the_links() {
    let folder = tempfile::tempdir().expect("a folder");
    for opener in ["receiver", "sender"] {
        let plan = plan("events = true", &format!("size = \"3 MB\"\nopened_by = \"{opener}\""));
        let Some(tables) = emulate(&plan, folder.path()) else { return };
        assert!(tables.gaps.run.is_empty(), "events are missing");
        let (events, flows) = (&tables.events, &tables.flows);
        let rows = |name: &str| (0..events.event.len()).filter(|n| &*events.event[*n] == name).collect::<Vec<_>>();
        let (sent, again, acks) = (rows("sent"), rows("retransmitted"), rows("ack"));
        let bytes: u64 = sent.iter().map(|n| u64::from(events.segment_bytes[*n])).sum();
        assert_eq!(bytes, 3_000_000, "each byte is sent once for the first time");
        let near = |ours: usize, theirs: Option<u64>| ours.abs_diff(theirs.expect("a count") as usize) <= 3 + ours / 50;
        assert!(near(sent.len() + again.len(), flows.sent_packets[0]), "{} and {again:?}", sent.len());
        assert!(near(again.len(), flows.retransmitted_packets[0]) && !again.is_empty());
        assert!(acks.len() > sent.len() / 4, "{} acknowledgements", acks.len());
        assert!(events.t_s.is_sorted(), "in the order of time");
        let last = *acks.last().expect("one");
        // The run ends when all data have arrived: the last acknowledgements are still in flight.
        assert!((2_700_000..=3_000_001).contains(&events.sequence[last]), "{}", events.sequence[last]);
        let srtt = events.srtt_ms[last].expect("samples");
        assert!((42.0..400.0).contains(&srtt), "{srtt}");
        let measured: Vec<f64> = acks.iter().filter_map(|n| events.rtt_ms[*n]).collect();
        assert!(measured.len() > acks.len() / 10, "{} of {} measure a round trip", measured.len(), acks.len());
        assert!(measured.iter().all(|rtt| *rtt >= 40.0), "the links alone take 40 ms");
        assert!(sent.iter().chain(&again).all(|n| events.rtt_ms[*n].is_none()), "what is sent measures nothing");
        assert!(events.rttvar_ms[last].is_some_and(|deviation| (0.0..400.0).contains(&deviation)));
        assert!(events.clamp_packets.iter().all(Option::is_none), "Linux bounds no window by default");
        let is_next = |n: &usize| events.snd_nxt_bytes[*n] >= events.sequence[*n] + u64::from(events.segment_bytes[*n]);
        assert!(sent.iter().chain(&again).all(is_next), "what is sent is before the next byte");
        // A FIN counts as one byte.
        let next = events.snd_nxt_bytes.iter().max().expect("rows");
        assert!((2_999_999..=3_000_001).contains(next), "{next}");
        assert!(events.rto_ms.iter().all(|rto| (200.0..120_000.0).contains(rto)), "retransmission timeouts");
        assert!(events.receive_window_bytes.iter().all(|window| *window > 10_000));
        assert!(events.cwnd_packets.iter().all(|cwnd| (1..100_000).contains(cwnd)));
        assert!(again.iter().any(|n| matches!(&*events.ca_state[*n], "recovery" | "loss")));
        assert!(again.iter().all(|n| events.ssthresh_packets[*n].is_some()));
        let most = sent.iter().map(|n| events.inflight_packets[*n]).max().expect("rows");
        assert!((10..3000).contains(&most), "{most} in flight");
        assert!(events.pacing_mbps.iter().all(Option::is_none), "cubic is not paced");
    }
}

#[test]
fn a_capture_that_cannot_be_written_fails_before_anything_is_sent() {
    let plan = plan("pcap = [\"client\"]", "size = \"2 MB\"");
    if let Err(error) = check(&plan) {
        return println!("skipped: {error}");
    }
    let files = CaptureFiles { folder: Path::new("/proc/nowhere"), prefix: "run-" };
    let error = run(&plan, &files, &mut |_| ControlFlow::Continue(())).expect_err("no folder there");
    assert!(matches!(error, RunError::Capture(_)) && !error.is_wrong_input(), "{error}");
}
