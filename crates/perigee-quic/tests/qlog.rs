//! The logs of both ends: equal in every run, and of what the stack did.

use perigee_quic::{AckFrequency, Config};
use perigee_units::{Bytes, Rate, Time};

use crate::common::{download, with, Path, SERVER};

const BYTES: u64 = 5_000_000;

/// The logs of a download that overflows a queue, and the losses that the server's algorithm counts.
fn logs() -> ([String; 2], u64) {
    let path = Path {
        rate: Rate::from_mbps(20.0),
        delay: Time::from_millis(20),
        queue: Bytes::new(60_000),
        silence: Time::MAX..Time::MAX,
        loses: |_| false,
    };
    let config = Config { qlog: true, ..with("reno") };
    let mut done = download(&path, [&config, &config], BYTES, Time::from_secs(60));
    let lost = done.ends[SERVER].info().lost;
    let log_of = |file: Option<Vec<u8>>| String::from_utf8(file.expect("a log was asked for")).expect("it is text");
    (done.ends.each_mut().map(|end| log_of(end.take_qlog())), lost)
}

fn count(log: &str, name: &str) -> u64 {
    log.matches(&format!("\"name\":\"quic:{name}\"")).count() as u64
}

#[test]
fn logs_are_equal_in_every_run_and_count_as_the_stack_does() {
    let (logs, lost) = logs();
    assert_eq!(logs, self::logs().0);
    let [client, server] = &logs;
    assert!(lost > 0);
    assert_eq!(count(server, "packet_lost"), lost);
    let [sent, got] = [count(server, "packet_sent"), count(client, "packet_received")];
    assert!(sent > got && got > BYTES / 1472, "{sent} sent, {got} received");
    assert!(server.contains(r#""initiator":"remote","#), "the client's parameters");
    assert!(count(server, "recovery_metrics_updated") > 1000);
}

#[test]
fn each_record_is_a_whole_text_with_frames_that_are_known() {
    for log in logs().0 {
        let records: Vec<&str> = log.split_terminator('\n').collect();
        assert!(records[0].contains("\"file_schema\":\"urn:ietf:params:qlog:file:sequential\""));
        for record in records {
            let depth = |open, close| record.matches(open).count() == record.matches(close).count();
            assert!(record.starts_with('\u{1e}') && record.ends_with('}'), "{record}");
            assert!(depth('{', '}') && depth('[', ']'), "{record}");
            assert!(!record.contains("unknown\",\"frame_type"), "{record}");
        }
    }
}

#[test]
fn frames_of_the_acknowledgement_frequency_have_their_names() {
    let path = Path {
        rate: Rate::from_mbps(20.0),
        delay: Time::from_millis(20),
        queue: Bytes::new(60_000),
        silence: Time::from_millis(400)..Time::from_secs(1),
        loses: |_| false,
    };
    let client = Config { qlog: true, ..with("reno") };
    let server = Config { ack_frequency: Some(AckFrequency { packets: 3, delay: None }), ..client.clone() };
    let mut done = download(&path, [&client, &server], BYTES, Time::from_secs(60));
    for log in done.ends.each_mut().map(|end| end.take_qlog().expect("a log was asked for")) {
        let log = String::from_utf8(log).expect("it is text");
        let asked = r#""frame_type":"ack_frequency","sequence_number":0,"ack_eliciting_threshold":3,"#;
        assert!(log.contains(asked) && log.contains(r#"{"frame_type":"immediate_ack"}"#));
        assert!(!log.contains(r#""frame_type":"unknown""#));
    }
}
