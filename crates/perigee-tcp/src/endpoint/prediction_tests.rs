//! Predicted segments change an endpoint, and what it sends, as the general steps would.

use std::collections::VecDeque;

use perigee_cc::Selected;
use perigee_settings::System;
use perigee_units::{Stream, Time};

use super::batch::Batch;
use super::{Config, Endpoint, Prediction};
use crate::segment::Segment;

/// A download through a server that takes `service` for a segment, with a short queue, which loses segments in bursts, and at random.
/// Where it is `relayed`, it is written bit by bit and read late. Returns how many segments were predicted at each end, and how many arrived there; then how many
/// acknowledgements reported nothing but a grown SACK block.
fn compare(cc: &str, config: &Config, loss: f64, relayed: bool, service: Time) -> ([(u32, u32); 2], u32) {
    let selected = Selected::parse(cc, &[]).unwrap();
    let (mut to, mut from) = (Endpoint::client(config, &selected, 1), Endpoint::server(config, &selected, 2));
    let mut lost = Stream::new(7, "lost");
    let (mut data, mut acks) = (VecDeque::<(Time, Segment)>::new(), VecDeque::<(Time, Segment)>::new());
    to.open(Time::ZERO);
    if relayed {
        to.read_on_demand();
    } else {
        from.write(SIZE);
        from.close();
    }
    let (mut counts, mut grown) = ([(0, 0); 2], 0);
    let mut free_at = Time::ZERO;
    for step in 0..200_000 {
        let now = Time::from_micros(250 * step);
        for number in [0, 1] {
            let (end, way) = if number == 0 { (&mut from, &mut acks) } else { (&mut to, &mut data) };
            let mut sent = Vec::new();
            while let Some(segment) = arrived(way, now) {
                grown += u32::from(is_growth(end, now, &segment));
                let was_predicted = take(end, now, &segment, &mut sent);
                counts[number].0 += u32::from(was_predicted);
                counts[number].1 += 1;
            }
            if relayed && number == 0 && step % 16 == 0 && end.is_established() && end.written() < SIZE {
                write(end, now, (SIZE - end.written()).min([25_000, 1_448, 700][step as usize / 16 % 3]), &mut sent);
                if end.written() == SIZE {
                    end.close();
                }
            } else if relayed && number == 1 && step % 3 == 0 {
                end.read(now, 4_000);
            }
            end.on_timer(now);
            transmit(end, now, &mut sent);
            for segment in sent {
                let waits = free_at.max(now) - now;
                if number == 1 {
                    acks.push_back((now + Time::from_millis(20), segment));
                } else if waits < service * 120 && !(segment.len > 0 && lost.chance(loss)) {
                    free_at = now + waits + service;
                    data.push_back((free_at + Time::from_millis(20), segment));
                }
            }
        }
        if from.is_closed() {
            break;
        }
    }
    assert_eq!(to.received(), SIZE, "{cc}");
    (counts, grown)
}

/// Whether a segment reports nothing but a grown SACK block.
fn is_growth(end: &Endpoint, now: Time, segment: &Segment) -> bool {
    let mut copy = end.clone();
    copy.sender.set_now(now);
    segment.sack_count > 0 && copy.on_growth(segment)
}

/// Takes a segment, and sends what follows, while a copy of the end does so on the slow path; whether it was predicted.
fn take(end: &mut Endpoint, now: Time, segment: &Segment, sent: &mut Vec<Segment>) -> bool {
    let mut general = end.clone();
    general.prediction = Prediction::Forgotten;
    general.sender.set_now(now);
    general.take(segment, false, segment.len);
    let expected: Vec<_> = std::iter::from_fn(|| general.poll_transmit(now)).collect();

    end.on_segment(now, segment, false);
    // What is not predicted forgets the prediction.
    let was_predicted = end.prediction != Prediction::Forgotten;
    let before = sent.len();
    transmit(end, now, sent);
    assert_eq!(format!("{:?}", &sent[before..]), format!("{expected:?}"), "{now:?}: {segment:?}");
    // What the last sample was is not read again.
    general.sender.rate = end.sender.rate;
    general.prediction = end.prediction;
    assert_eq!(format!("{end:?}"), format!("{general:?}"), "{now:?}: {segment:?}");
    was_predicted
}

/// Writes, and sends what follows, while a copy of the end does so on the slow path.
fn write(end: &mut Endpoint, now: Time, bytes: u64, sent: &mut Vec<Segment>) {
    let mut general = end.clone();
    general.write(bytes);
    general.prediction = Prediction::Forgotten;
    let expected: Vec<_> = std::iter::from_fn(|| general.poll_transmit(now)).collect();
    end.write(bytes);
    let before = sent.len();
    transmit(end, now, sent);
    assert_eq!(format!("{:?}", &sent[before..]), format!("{expected:?}"), "{now:?}: {bytes} B written");
    general.prediction = end.prediction;
    assert_eq!(format!("{end:?}"), format!("{general:?}"), "{now:?}: {bytes} B written");
}

/// Sends what has to leave, as the simulator does.
fn transmit(end: &mut Endpoint, now: Time, sent: &mut Vec<Segment>) {
    end.transmit_predicted(now, |header| sent.push(Segment::from(*header)));
    let mut report = Segment::default();
    if end.poll_report(now, &mut report) {
        sent.push(report);
    }
    sent.extend(std::iter::from_fn(|| end.poll_transmit(now)));
}

/// The next segment that has arrived by `now`.
fn arrived(way: &mut VecDeque<(Time, Segment)>, now: Time) -> Option<Segment> {
    way.front().filter(|(at, _)| *at <= now)?;
    way.pop_front().map(|(_, segment)| segment)
}

/// Bytes of the download.
const SIZE: u64 = 1_500_000;

#[test]
fn predicted_segments_change_an_endpoint_and_what_it_sends_as_the_general_steps_do() {
    for cc in ["reno", "cubic", "bbr", "westwood", "vegas"] {
        for (config, loss) in [
            (Config::default(), 0.0),
            (Config::default(), 0.01),
            (Config { abc: false, timestamps: false, tlp: false, ..Config::default() }, 0.003),
            (Config { pacing: true, ..Config::default() }, 0.003),
            (Config { delayed_acks: false, ..Config::default() }, 0.003),
            (System::named("linux-6.1").unwrap().config(), 0.003),
            (System::named("rfc").unwrap().config(), 0.003),
        ] {
            for relayed in [false, true] {
                let ([from, to], grown) = compare(cc, &config, loss, relayed, Time::from_micros(500));
                let share = |(predicted, all): (u32, u32)| f64::from(predicted) / f64::from(all);
                let least = if loss > 0.005 || relayed { 0.05 } else { 0.3 };
                assert!(loss < 0.005 || grown > 50, "{cc}: grown blocks, {grown}");
                assert!(share(from) > least, "{cc}: of the acknowledgements, (predicted, all) {from:?}");
                assert!(share(to) > 0.2, "{cc}: of the data, (predicted, all) {to:?}");
            }
        }
    }
}

#[test]
fn what_an_algorithm_counts_as_limited_by_the_application_is_so_in_predicted_turns_too() {
    // BBR does in the phases in which it looks for the least round trip, ten seconds apart.
    let ([from, _], _) = compare("bbr", &Config::default(), 0.0, false, Time::from_millis(20));
    assert!(from.0 > from.1 / 2, "of the acknowledgements, (predicted, all) {from:?}");
}

/// A sender beside another that takes the same segments in a batch, which puts off the timer.
struct Beside<'a> {
    in_time: Endpoint,
    in_batch: Batch<'a>,
    /// In how many turns the timer was put off, and in how many of them that was clear without setting it.
    put_off: (u32, u32),
}

impl Beside<'_> {
    fn take(&mut self, now: Time, segment: &Segment) -> Vec<Segment> {
        let (mut sent, mut same) = (Vec::new(), Vec::new());
        self.in_time.on_segment(now, segment, false);
        transmit(&mut self.in_time, now, &mut sent);
        if segment.sack_count > 0 || !self.in_batch.take(now, segment) {
            self.in_batch.endpoint().on_segment(now, segment, false);
        }
        self.transmit_in_batch(now, &mut same);
        assert_eq!(format!("{same:?}"), format!("{sent:?}"), "{now:?}: {segment:?}");
        sent
    }

    fn on_timer(&mut self, now: Time) -> Vec<Segment> {
        let (mut sent, mut same) = (Vec::new(), Vec::new());
        self.in_time.on_timer(now);
        transmit(&mut self.in_time, now, &mut sent);
        if self.in_batch.next_paced() == Some(now) {
            self.in_batch.on_paced(now);
            self.transmit_in_batch(now, &mut same);
        } else {
            self.in_batch.endpoint().on_timer(now);
            transmit(self.in_batch.endpoint(), now, &mut same);
        }
        assert_eq!(format!("{same:?}"), format!("{sent:?}"), "{now:?}");
        sent
    }

    fn transmit_in_batch(&mut self, now: Time, sent: &mut Vec<Segment>) {
        self.in_batch.send(now, |header| sent.push(Segment::from(*header)));
        if self.in_batch.has_output() {
            let end = self.in_batch.endpoint();
            sent.extend(std::iter::from_fn(|| end.poll_transmit(now)));
        }
    }

    /// Nothing else happens before `next` if no timer does.
    fn wait(&mut self, next: Time) {
        let mut settled = self.in_batch.clone();
        settled.in_batch(|_| ());
        let deadline = self.in_time.deadline();
        for at in [next, deadline, deadline + Time::from_nanos(1)] {
            assert_eq!(self.in_batch.clone().in_batch(|mut batch| batch.is_idle_until(at)), at <= deadline, "{at:?}");
        }
        self.in_time.sender.timer.earliest = settled.sender.timer.earliest;
        self.in_time.sender.rate = settled.sender.rate;
        assert_eq!(format!("{:?}", self.in_time), format!("{settled:?}"), "{next:?}");
        let was_put_off = self.puts_off();
        self.in_batch.is_idle_until(next);
        self.put_off.0 += u32::from(was_put_off);
        self.put_off.1 += u32::from(was_put_off && self.puts_off());
    }

    fn puts_off(&self) -> bool {
        self.in_batch.sender.timer.is_put_off()
    }
}

/// Carries the download to its end; in how many turns the timer was put off, and in how many of them that was clear.
fn download(to: &mut Endpoint, mut from: Beside<'_>, loss: f64) -> (u32, u32) {
    let mut lost = Stream::new(7, "lost");
    let (mut data, mut acks) = (VecDeque::<(Time, Segment)>::new(), VecDeque::<(Time, Segment)>::new());
    to.open(Time::ZERO);
    for end in [&mut from.in_time, from.in_batch.endpoint()] {
        end.write(SIZE);
        end.close();
    }
    let (mut now, mut free_at) = (Time::ZERO, Time::ZERO);
    while !to.is_closed() && now < Time::from_secs(600) {
        let mut sent = Vec::new();
        while let Some(segment) = arrived(&mut data, now) {
            to.on_segment(now, &segment, false);
            transmit(to, now, &mut sent);
        }
        to.on_timer(now);
        transmit(to, now, &mut sent);
        acks.extend(sent.drain(..).map(|segment| (now + Time::from_millis(20), segment)));
        while let Some(segment) = arrived(&mut acks, now) {
            sent.extend(from.take(now, &segment));
        }
        if now >= from.in_time.deadline() {
            sent.extend(from.on_timer(now));
        }
        for segment in sent {
            free_at = free_at.max(now) + Time::from_micros(500);
            if !(segment.len > 0 && lost.chance(loss)) {
                data.push_back((free_at + Time::from_millis(20), segment));
            }
        }
        let arrivals = [data.front(), acks.front()].into_iter().flatten().map(|(at, _)| *at);
        let next = arrivals.chain([to.deadline(), from.in_time.deadline()]).min().unwrap();
        from.wait(next);
        now = next;
    }
    from.put_off
}

#[test]
fn a_timer_that_a_batch_puts_off_is_set_as_in_time() {
    for (cc, loss) in [("cubic", 0.0), ("cubic", 0.002), ("reno", 0.01), ("bbr", 0.0)] {
        let selected = Selected::parse(cc, &[]).unwrap();
        let config = Config::default();
        let (mut to, mut from) = (Endpoint::client(&config, &selected, 1), Endpoint::server(&config, &selected, 2));
        let in_time = from.clone();
        let (put_off, clear) =
            from.in_batch(|in_batch| download(&mut to, Beside { in_time, in_batch, put_off: (0, 0) }, loss));
        assert_eq!(to.received(), SIZE, "{cc}");
        assert!(clear > put_off / 2, "{cc}: {clear} of {put_off}");
    }
}
