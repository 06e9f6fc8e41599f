//! A run that breaks a law of the simulator is an error: what would have been its rows says why.

use std::ops::ControlFlow;

use perigee_study::Run;
use perigee_units::Time;

use super::{plan, through_router};
use crate::carriage::Carriage;
use crate::engine::Engine;
use crate::SimError;

/// Links of `through_router`: the last one of acknowledgements, and of data.
const BACK: u32 = 1;
const DOWN: u32 = 2;

/// A download that its time limit cuts off, with packets on the way, over a bottleneck of this description.
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
    engine.carry_out(&mut |_| ControlFlow::Continue(())).expect("nobody cancels it");
    engine
}

/// What is said of a run to which something has happened.
fn said(engine: &Engine<'_>) -> String {
    match engine.check() {
        Err(error @ SimError::Fault { .. }) => error.to_string(),
        other => panic!("it is found: {other:?}"),
    }
}

/// Drop-tail, whose packets the network keeps, and links that keep them.
const BOTTLENECKS: [&str; 3] = [
    "rate = \"10 Mbit/s\"",
    "rate = \"10 Mbit/s\"\nqueue = { bytes = \"1 MB\", aqm = { kind = \"fq-codel\" } }",
    "rate = { kind = \"tdma\", superframe = \"26 ms\", slots = 400, payload = \"298 B\", terminals = 2, fixed = 1 }",
];

#[test]
fn a_link_that_holds_packets_and_has_no_event_ends_the_run_with_an_error() {
    for bottleneck in BOTTLENECKS {
        let run = download(bottleneck);
        let mut engine = carried_out(&run);
        engine.check().expect("packets on their way are no fault");
        engine.world.queue.remove(DOWN);
        let said = said(&engine);
        assert!(said.starts_with("link `bottleneck.down` holds ") && said.contains(" and has no event"), "{said}");
        assert!(said.contains("report it with the study"), "{said}");
    }
}

#[test]
fn an_event_that_is_lost_in_the_middle_of_a_run_is_found_at_its_end() {
    let run = download(BOTTLENECKS[0]);
    let mut engine = Engine::new(&run, Carriage::default()).expect("a run that is possible");
    let limit = std::mem::replace(&mut engine.world.stop, Time::from_secs(1));
    engine.carry_out(&mut |_| ControlFlow::Continue(())).expect("nobody cancels it");
    engine.world.queue.remove(BACK);
    engine.world.stop = limit;
    let error = engine.run(&mut |_| ControlFlow::Continue(())).expect_err("the transfer has stopped for good");
    assert!(error.to_string().starts_with("link `access.up` holds "), "{error}");
}

#[test]
fn a_packet_that_is_nowhere_ends_the_run_with_an_error() {
    let run = download(BOTTLENECKS[0]);
    let mut engine = carried_out(&run);
    engine.world.network.calendar(DOWN).drop_first();
    engine.world.schedule_first(DOWN);
    let said = said(&engine);
    assert!(said.starts_with("of ") && said.contains(" packets sent, "), "{said}");
}

#[test]
fn a_connection_whose_timer_never_fires_ends_the_run_with_an_error() {
    for bottleneck in BOTTLENECKS {
        let run = download(bottleneck);
        let mut engine = carried_out(&run);
        let of_sender = engine.world.network.links() as u32;
        engine.world.queue.remove(of_sender);
        assert!(said(&engine).starts_with("flow `f` waits: its sender has a timer at "), "{}", said(&engine));
    }
}

#[test]
fn a_datagram_of_whose_fate_its_flow_is_never_told_ends_the_run_with_an_error() {
    let flow = "kind = \"udp\"\nrate = \"2 Mbit/s\"\npacket = \"500 B\"\nduration = \"10 s\"";
    for bottleneck in BOTTLENECKS {
        carried_out(&cut_off(flow, bottleneck)).check().expect("packets on their way are no fault");
    }
    let run = cut_off(flow, BOTTLENECKS[0]);
    let mut engine = carried_out(&run);
    // As if it had arrived.
    engine.world.network.calendar(DOWN).drop_first();
    engine.world.network.count_arrival();
    engine.world.schedule_first(DOWN);
    let said = said(&engine);
    assert!(said.starts_with("flow `f` waits for ") && said.contains(" packets, of which "), "{said}");
}
