//! Comparison with tshark, where it is installed.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{capture, of_files, simulated, Folder};

/// The number of packets of a capture that match a display filter of tshark.
fn shown(file: &Path, filter: &str) -> u64 {
    let output = Command::new("tshark")
        .args(["-T", "fields", "-e", "frame.number", "-Y", filter, "-r"])
        .arg(file)
        .output()
        .expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().count() as u64
}

#[test]
fn what_was_sent_again_is_what_tshark_says() {
    if Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("skipped: tshark is not installed");
        return;
    }
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"8 MB\"\n";
    let result = simulated("rate = \"10 Mbit/s\"\ndelay = \"150 ms\"\nloss = \"0.5 %\"", flow);
    let folder = Folder::new();
    for node in ["a", "b"] {
        let file = folder.file(&format!("{node}.pcapng"), capture(&result, node));
        let found = of_files(&[&file]).expect("a capture").remove(0);
        let again = "tcp.analysis.retransmission || tcp.analysis.fast_retransmission || \
                     tcp.analysis.spurious_retransmission";
        let late = shown(&file, &format!("tcp.analysis.out_of_order && !({again})"));
        let again = shown(&file, again);
        let data = shown(&file, "tcp.len > 0");
        let (flows, seen) = (&found.tables.flows, &found.captured.connections);
        assert_eq!(flows.sent_packets[0], seen.lost_before_packets[0].map(|lost| data + lost), "at {node}");
        println!(
            "{node}: {again} again, {late} late; ours {:?} {:?}",
            flows.retransmitted_packets[0], seen.reordered_packets[0]
        );
        assert_eq!(flows.retransmitted_packets[0], Some(again + late), "at {node}");
        assert_eq!(seen.reordered_packets[0], Some(0), "the simulated link keeps the order");
    }
}
