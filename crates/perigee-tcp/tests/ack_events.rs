//! When a congestion control hears of an acknowledgement.

use std::cell::RefCell;

use perigee_cc::{algorithms, AckSample, Ops, Selected, TcpSock};
use perigee_settings::Config;
use perigee_units::Time;

use crate::common::{Path, Transfer};

thread_local! {
    /// The callbacks that the sender's algorithm got, with the packets out at each.
    static HEARD: RefCell<Vec<(&'static str, u32)>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn an_acknowledgement_is_heard_of_before_or_after_its_segments_have_left_the_queue() {
    let heard = |late_ack_events| {
        let reno = algorithms().iter().find(|algorithm| algorithm.name() == "reno").expect("a built-in algorithm");
        let ops = *reno.ops().expect("it is built in");
        // SAFETY: the callbacks only read a field of the socket, which is theirs during the call.
        let watched = unsafe { reno.with_ops(Ops { in_ack_event: Some(event), pkts_acked: Some(acked), ..ops }) };
        let config = Config { late_ack_events, delayed_acks: false, ..Config::default() };
        let mut transfer = Transfer::of(&Path::default(), &config, &Selected::with_defaults(watched));
        transfer.sender.write(2 * 1448);
        transfer.open();
        HEARD.take();
        transfer.run(Time::from_secs(1), |transfer| transfer.sender.acked() == 2 * 1448);
        // The last two callbacks are those of the last ACK.
        let all = HEARD.take();
        all[all.len() - 2..].to_vec()
    };
    assert_eq!(heard(false), [("event", 1), ("acked", 0)]);
    assert_eq!(heard(true), [("acked", 0), ("event", 0)]);
}

unsafe extern "C" fn event(sk: *mut TcpSock, _flags: u32) {
    // SAFETY: the host passes the address of a socket that nothing else uses during the call.
    HEARD.with_borrow_mut(|heard| heard.push(("event", unsafe { (*sk).packets_out })));
}

unsafe extern "C" fn acked(sk: *mut TcpSock, _sample: *const AckSample) {
    // SAFETY: as above.
    HEARD.with_borrow_mut(|heard| heard.push(("acked", unsafe { (*sk).packets_out })));
}
