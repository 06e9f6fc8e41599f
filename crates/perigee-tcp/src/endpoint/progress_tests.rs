//! An acknowledgement that is plain progress changes the sender as the general steps would.

use std::collections::VecDeque;

use perigee_cc::Selected;
use perigee_units::{Stream, Time};

use super::{Config, Endpoint};
use crate::segment::Segment;

/// A download through a slow server with a short queue, which loses segments in bursts, and at random. Before each acknowledgement
/// that is plain progress, a copy of the sender takes it in the general way; returns how many there were, and how many others.
fn compare(cc: &str, config: &Config, loss: f64) -> (u32, u32) {
    let selected = Selected::parse(cc, &[]).unwrap();
    let (mut to, mut from) = (Endpoint::client(config, &selected, 1), Endpoint::server(config, &selected, 2));
    let mut lost = Stream::new(7, "lost");
    let (mut data, mut acks) = (VecDeque::<(Time, Segment)>::new(), VecDeque::<(Time, Segment)>::new());
    to.open(Time::ZERO);
    from.write(1_500_000);
    from.close();
    let (mut plain, mut others) = (0, 0);
    let mut free_at = Time::ZERO;
    for step in 0..200_000 {
        let now = Time::from_micros(250 * step);
        while let Some(segment) = arrived(&mut acks, now) {
            from.sender.set_now(now);
            let ack = from.sender.stream.position(segment.ack).filter(|ack| from.sender.is_progress(&segment, *ack));
            let general = ack.filter(|_| from.is_established()).map(|ack| {
                let mut general = from.sender.clone();
                general.begin_ack();
                general.on_any_ack(&segment, ack, segment.window != from.last_peer_window);
                general
            });
            from.on_segment(now, &segment, false);
            match general {
                None => others += 1,
                Some(mut general) => {
                    // What the last sample was is not read again.
                    general.rate = from.sender.rate;
                    assert_eq!(format!("{:?}", from.sender), format!("{general:?}"), "{cc} at {now:?}: {segment:?}");
                    plain += 1;
                }
            }
        }
        while let Some(segment) = arrived(&mut data, now) {
            to.on_segment(now, &segment, false);
        }
        for (end, own) in [(&mut from, true), (&mut to, false)] {
            end.on_timer(now);
            while let Some(segment) = end.poll_transmit(now) {
                let waits = free_at.max(now) - now;
                if !own {
                    acks.push_back((now + Time::from_millis(20), segment));
                } else if waits < Time::from_millis(60) && !(segment.len > 0 && lost.chance(loss)) {
                    free_at = now + waits + Time::from_micros(500);
                    data.push_back((free_at + Time::from_millis(20), segment));
                }
            }
        }
        if from.is_closed() {
            break;
        }
    }
    assert_eq!(to.received(), 1_500_000, "{cc}");
    (plain, others)
}

/// The next segment that has arrived by `now`.
fn arrived(way: &mut VecDeque<(Time, Segment)>, now: Time) -> Option<Segment> {
    way.front().filter(|(at, _)| *at <= now)?;
    way.pop_front().map(|(_, segment)| segment)
}

#[test]
fn plain_progress_changes_the_sender_as_the_general_steps_do() {
    for cc in ["reno", "cubic", "bbr", "westwood", "vegas"] {
        for (config, loss) in [
            (Config::default(), 0.0),
            (Config::default(), 0.01),
            (Config { abc: false, timestamps: false, ..Config::default() }, 0.003),
            (Config { pacing: true, ..Config::default() }, 0.003),
        ] {
            let (plain, others) = compare(cc, &config, loss);
            assert!(plain > 50, "{cc}: {plain} acknowledgements of {others} were plain progress");
        }
    }
}
