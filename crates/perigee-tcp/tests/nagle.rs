//! Nagle's algorithm (RFC 896; RFC 1122, section 4.2.3.4).

use crate::common::{Path, Transfer};
use perigee_settings::Config;
use perigee_tcp::Flags;
use perigee_units::Time;

const MSS: u64 = 1448;

/// The sizes of the segments that a sender of `bytes` has sent 50 ms, half a round trip, after its last write, and in the end.
fn sent(nagle: bool, bytes: u64, closes: bool) -> [Vec<u64>; 2] {
    let mut transfer = Transfer::new(&Path::default(), &Config { nagle, ..Config::default() }, "reno");
    transfer.open();
    transfer.run(Time::from_secs(1), |_| false);
    transfer.sender.write(bytes);
    if closes {
        transfer.sender.close();
    }
    transfer.flush();
    [50, 1000].map(|ms| {
        transfer.run(Time::from_millis(1000 + ms), |_| false);
        let data = transfer.data.iter().filter(|segment| segment.len > 0);
        data.map(|segment| u64::from(segment.len)).collect()
    })
}

#[test]
fn the_last_small_segment_waits_for_an_acknowledgement_of_all_before_it() {
    for closes in [false, true] {
        let [at_once, in_the_end] = sent(true, 2 * MSS + 100, closes);
        assert_eq!((at_once, in_the_end), (vec![MSS, MSS], vec![MSS, MSS, 100]), "closes: {closes}");
    }
    assert_eq!(sent(false, 2 * MSS + 100, false)[0], [MSS, MSS, 100]);
}

#[test]
fn full_segments_and_a_small_one_alone_do_not_wait() {
    assert_eq!(sent(true, 2 * MSS, true)[0], [MSS, MSS]);
    assert_eq!(sent(true, 100, true)[0], [100]);
}

#[test]
fn a_fin_waits_with_the_data_before_it() {
    let mut transfer = Transfer::new(&Path::default(), &Config { nagle: true, ..Config::default() }, "reno");
    transfer.open();
    transfer.run(Time::from_secs(1), |_| false);
    transfer.sender.write(MSS + 100);
    transfer.sender.close();
    transfer.flush();
    transfer.run(Time::from_secs(2), |_| false);
    let fins: Vec<_> = transfer.data.iter().filter(|segment| segment.flags.has(Flags::FIN)).collect();
    assert_eq!(fins.iter().map(|segment| segment.len).collect::<Vec<_>>(), [100]);
}
