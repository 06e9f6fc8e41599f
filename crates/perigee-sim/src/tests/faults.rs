//! A run that breaks a law of the simulator returns an error that says how.

use std::ops::ControlFlow;

use perigee_study::Run;
use perigee_units::Time;

use super::{plan, through_router};
use crate::carriage::Carriage;
use crate::engine::Engine;
use crate::SimError;

/// Links of `through_router`: the last one of ACKs, and of data.
const BACK: u32 = 1;
const DOWN: u32 = 2;

/// A download over this bottleneck, cut off by its time limit with packets in flight.
fn download(bottleneck: &str) -> Run {
    cut_off("size = \"1 GB\"", bottleneck)
}

fn cut_off(flow: &str, bottleneck: &str) -> Run {
    let flow = format!("[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{flow}");
    let text = through_router(&format!("delay = \"50 ms\"\n{bottleneck}"), &flow);
    plan(&text.replace("name = \"test\"", "name = \"test\"\ntime_limit = \"3 s\""))
}

fn carried_out(run: &Run) -> Engine<'_> {
    let mut engine = Engine::new(run, Carriage::default()).expect("a run that is possible");
    engine.carry_out(&mut |_| ControlFlow::Continue(())).expect("the run succeeds");
    engine
}

/// The error of a run that was tampered with.
fn fault_of(engine: &Engine<'_>) -> String {
    match engine.check() {
        Err(error @ SimError::Fault { .. }) => error.to_string(),
        other => panic!("it is found: {other:?}"),
    }
}

/// Drop-tail, whose packets the network stores, and links that store them.
const BOTTLENECKS: [&str; 3] = [
    "rate = \"10 Mbit/s\"",
    "rate = \"10 Mbit/s\"\nqueue = { bytes = \"1 MB\", aqm = { kind = \"fq-codel\" } }",
    "rate = { kind = \"tdma\", superframe = \"26 ms\", slots = 400, payload = \"298 B\", terminals = 2, fixed = 1 }",
];

#[test]
fn a_link_with_packets_but_no_event_fails_the_run() {
    for bottleneck in BOTTLENECKS {
        let run = download(bottleneck);
        let mut engine = carried_out(&run);
        engine.check().expect("packets in flight are no fault");
        engine.world.network.queue.remove(DOWN);
        let fault_of = fault_of(&engine);
        assert!(
            fault_of.starts_with("link `bottleneck.down` holds ") && fault_of.contains(" and has no event"),
            "{fault_of}"
        );
        assert!(fault_of.contains("report it with the study"), "{fault_of}");
    }
}

#[test]
fn an_event_lost_during_a_run_is_found_at_its_end() {
    let run = download(BOTTLENECKS[0]);
    let mut engine = Engine::new(&run, Carriage::default()).expect("a run that is possible");
    let limit = std::mem::replace(&mut engine.world.stop, Time::from_secs(1));
    engine.carry_out(&mut |_| ControlFlow::Continue(())).expect("the run succeeds");
    engine.world.network.queue.remove(BACK);
    engine.world.stop = limit;
    let error = engine.run(&mut |_| ControlFlow::Continue(())).expect_err("the transfer has stopped for good");
    assert!(error.to_string().starts_with("link `access.up` holds "), "{error}");
}

#[test]
fn a_missing_packet_fails_the_run() {
    let run = download(BOTTLENECKS[0]);
    let mut engine = carried_out(&run);
    engine.world.network.calendar(DOWN).drop_first(1);
    engine.world.network.set_event(DOWN);
    let fault_of = fault_of(&engine);
    assert!(fault_of.starts_with("of ") && fault_of.contains(" packets sent, "), "{fault_of}");
}

#[test]
fn a_connection_whose_timer_never_fires_fails_the_run() {
    for bottleneck in BOTTLENECKS {
        let run = download(bottleneck);
        let mut engine = carried_out(&run);
        let of_sender = engine.world.network.accounts().count() as u32;
        engine.world.network.queue.remove(of_sender);
        assert!(fault_of(&engine).starts_with("flow `f` waits: its sender has a timer at "), "{}", fault_of(&engine));
    }
}

#[test]
fn a_datagram_whose_fate_is_never_reported_fails_the_run() {
    let flow = "kind = \"udp\"\nrate = \"2 Mbit/s\"\npacket = \"500 B\"\nduration = \"10 s\"";
    for bottleneck in BOTTLENECKS {
        carried_out(&cut_off(flow, bottleneck)).check().expect("packets in flight are no fault");
    }
    let run = cut_off(flow, BOTTLENECKS[0]);
    let mut engine = carried_out(&run);
    // As if it had arrived.
    engine.world.network.calendar(DOWN).drop_first(1);
    engine.world.network.count_arrivals(1);
    engine.world.network.set_event(DOWN);
    let fault_of = fault_of(&engine);
    assert!(fault_of.starts_with("flow `f` waits for ") && fault_of.contains(" packets, of which "), "{fault_of}");
}
