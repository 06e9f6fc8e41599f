//! Losses of frames: which packets fall together, and the share of packets that do.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use perigee_link::{DropReason, Ecn, Link, LinkSpec, LossSpec, Transit};
use perigee_units::{Bytes, Rate, Ratio, Time};
use proptest::prelude::*;

/// A link of 8 Mbit/s, a byte per microsecond.
fn link(loss: f64, frame: u64, overhead: u32) -> Link<()> {
    let loss = vec![LossSpec::Frames { loss: Ratio::new(loss).unwrap(), frame: Bytes::new(frame) }];
    let spec = LinkSpec { loss, overhead, ..LinkSpec::constant(Rate::from_mbps(8.0), Time::from_millis(250)) };
    Link::new(&spec, 7, "carrier")
}

/// Whether the link loses a packet of this size that arrives now.
fn is_lost(link: &mut Link<()>, now: Time, bytes: u32) -> bool {
    link.transit(now, bytes, &mut Ecn::NotCapable) == Transit::Dropped(DropReason::Loss)
}

/// The fates of `packets` packets of one size, all in the queue of an idle link at once.
fn fates(link: &mut Link<()>, bytes: u32, packets: usize) -> Vec<bool> {
    (0..packets).map(|_| is_lost(link, Time::ZERO, bytes)).collect()
}

fn share(fates: &[bool]) -> f64 {
    fates.iter().filter(|lost| **lost).count() as f64 / fates.len() as f64
}

#[test]
fn packets_of_one_frame_fall_together_and_frames_independently() {
    let frames = 20_000;
    let lost = fates(&mut link(0.1, 6_000, 0), 60, 100 * frames);
    let by_frame: Vec<bool> = lost.chunks(100).map(|frame| frame[0]).collect();
    assert!(lost.chunks(100).zip(&by_frame).all(|(frame, first)| frame.iter().all(|packet| packet == first)));
    assert!((share(&by_frame) - 0.1).abs() < 0.01, "{}", share(&by_frame));
    let both = by_frame.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64 / frames as f64;
    assert!((both - 0.01).abs() < 0.003, "{both} of all pairs of neighbours");
}

#[test]
fn a_packet_is_lost_if_any_of_its_frames_is() {
    // Over all offsets, a packet of s bytes begins in one frame of f bytes and goes on into (s - 1) / f more on average: the whole part
    // always, and one more with the probability of the rest. Sizes that share no factor with a frame meet all offsets equally.
    for (bytes, frame, loss) in
        [(41_u32, 374_u64, 0.05), (1_501, 6_041, 0.02), (1_499, 374, 0.02), (9_001, 2_000, 0.01)]
    {
        let further = f64::from(bytes - 1) / frame as f64;
        let (whole, rest) = (further.floor(), further.fract());
        let passes = (1.0_f64 - loss).powf(1.0 + whole) * (1.0 - loss * rest);
        let lost = share(&fates(&mut link(loss, frame, 0), bytes, 400_000));
        assert!((lost / (1.0 - passes) - 1.0).abs() < 0.05, "{lost} of packets of {bytes} B in {frame} B");
    }
}

#[test]
fn overhead_counts_in_the_frame() {
    let [counted, larger] =
        [(1_460, 40), (1_500, 0)].map(|(bytes, over)| fates(&mut link(0.1, 6_000, over), bytes, 4_000));
    assert_eq!(counted, larger);
}

#[test]
fn a_packet_after_an_idle_time_begins_a_frame_of_its_own() {
    // Three packets fit into a frame, but each one leaves before the next arrives.
    let mut link = link(0.5, 6_000, 0);
    let lost: Vec<bool> = (0..40_000).map(|n| is_lost(&mut link, Time::from_millis(3 * n), 2_000)).collect();
    assert!((share(&lost) - 0.5).abs() < 0.01, "{}", share(&lost));
    let alike = lost.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64 / lost.len() as f64;
    assert!((alike - 0.5).abs() < 0.01, "{alike} of neighbours share a fate");
}

proptest! {
    #[test]
    fn the_fate_of_a_frame_does_not_depend_on_how_its_bytes_are_packed(
        (seed_loss, frame) in (0.01..0.5, 100_u64..3_000), sizes in prop::collection::vec(28_u32..1_501, 1..200),
    ) {
        // A stream of single bytes shows each frame's fate; any packets over the same bytes must agree.
        let total: u32 = sizes.iter().sum();
        let bytes = fates(&mut link(seed_loss, frame, 0), 1, total as usize);
        let (mut packed, mut begin) = (link(seed_loss, frame, 0), 0);
        for size in sizes {
            let end = begin + size as usize;
            prop_assert_eq!(is_lost(&mut packed, Time::ZERO, size), bytes[begin..end].contains(&true));
            begin = end;
        }
    }
}
