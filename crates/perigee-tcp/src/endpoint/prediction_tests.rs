//! Predicted segments change an endpoint, and what it sends, as the slow path would.

use std::collections::VecDeque;

use perigee_cc::Selected;
use perigee_settings::System;
use perigee_units::{Stream, Time};

use super::batch::Batch;
use super::{Config, Endpoint, Prediction};
use crate::segment::{Segment, Train};

/// Downloads through a bottleneck with a service time of `service` per segment and a short queue, with random and
/// bursty losses. With `relayed`, the sender writes in small pieces, every that number of steps, and the receiver reads
/// late. Returns the number of segments predicted and received at each end, then the number of ACKs that only extended
/// a SACK block.
fn compare(cc: &str, config: &Config, loss: f64, relayed: Option<u64>, service: Time) -> ([(u32, u32); 2], u32) {
    compare_over(&Selected::parse(cc, &[]).unwrap(), config, loss, relayed, (service, Time::from_millis(20)))
}

/// [`compare`] with parameters of the congestion control, and `delay` each way.
fn compare_over(
    selected: &Selected,
    config: &Config,
    loss: f64,
    relayed: Option<u64>,
    (service, delay): (Time, Time),
) -> ([(u32, u32); 2], u32) {
    let (mut to, mut from) = (Endpoint::client(config, selected, 1), Endpoint::server(config, selected, 2));
    let mut lost = Stream::new(7, "lost");
    let (mut data, mut acks) = (VecDeque::<(Time, Segment)>::new(), VecDeque::<(Time, Segment)>::new());
    to.open(Time::ZERO);
    if relayed.is_some() {
        to.read_on_demand();
    } else {
        from.write(SIZE);
        from.close();
    }
    let (mut counts, mut advances) = ([(0, 0); 2], 0);
    let mut free_at = Time::ZERO;
    for step in 0..200_000 {
        let now = Time::from_micros(250 * step);
        for number in [0, 1] {
            let (end, path) = if number == 0 { (&mut from, &mut acks) } else { (&mut to, &mut data) };
            let mut sent = Vec::new();
            while let Some(segment) = arrived(path, now) {
                advances += u32::from(is_sack_advance(end, now, &segment));
                let was_predicted = take(end, now, &segment, &mut sent);
                counts[number].0 += u32::from(was_predicted);
                counts[number].1 += 1;
            }
            let is_written = number == 0 && end.is_established() && end.written() < SIZE;
            if let Some(every) = relayed.filter(|every| is_written && step % every == 0) {
                write(
                    end,
                    now,
                    (SIZE - end.written()).min([25_000, 1_448, 700][(step / every % 3) as usize]),
                    &mut sent,
                );
                if end.written() == SIZE {
                    end.close();
                }
            } else if relayed.is_some() && number == 1 && step % 3 == 0 {
                end.read(now, 4_000);
            }
            end.on_timer(now);
            transmit(end, now, &mut sent);
            for segment in sent {
                let waits = free_at.max(now) - now;
                if number == 1 {
                    acks.push_back((now + delay, segment));
                } else if waits < service * 120 && !(segment.len > 0 && lost.chance(loss)) {
                    free_at = now + waits + service;
                    data.push_back((free_at + delay, segment));
                }
            }
        }
        if from.is_closed() {
            break;
        }
    }
    assert_eq!(to.received(), SIZE, "{:?}", selected.algorithm().name());
    (counts, advances)
}

/// Whether an ACK only extends the newest SACK block.
fn is_sack_advance(end: &Endpoint, now: Time, segment: &Segment) -> bool {
    let mut copy = end.clone();
    copy.sender.set_now(now);
    segment.sack_count > 0 && copy.on_sack_advance(segment)
}

/// Processes a segment and sends what follows, on the fast path and, in a copy of the endpoint, on the slow path; returns whether it was
/// predicted.
fn take(end: &mut Endpoint, now: Time, segment: &Segment, sent: &mut Vec<Segment>) -> bool {
    let mut general = end.clone();
    general.prediction = Prediction::Forgotten;
    general.sender.set_now(now);
    general.take(segment, false, segment.len);
    let expected: Vec<_> = std::iter::from_fn(|| general.poll_transmit(now)).collect();

    end.on_segment(now, segment, false);
    // The slow path forgets the prediction.
    let was_predicted = end.prediction != Prediction::Forgotten;
    let before = sent.len();
    transmit(end, now, sent);
    assert_eq!(format!("{:?}", &sent[before..]), format!("{expected:?}"), "{now:?}: {segment:?}");
    // The last rate sample is not read again.
    general.sender.rate = end.sender.rate;
    general.prediction = end.prediction;
    assert_eq!(format!("{end:?}"), format!("{general:?}"), "{now:?}: {segment:?}");
    was_predicted
}

/// Writes and sends what follows, on the fast path and, in a copy of the endpoint, on the slow path.
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

/// Sends pending segments the way the simulator does.
fn transmit(end: &mut Endpoint, now: Time, sent: &mut Vec<Segment>) {
    end.transmit_predicted(now, |header| sent.push(Segment::from(*header)));
    let mut report = Segment::default();
    if end.poll_duplicate_ack(now, &mut report) {
        sent.push(report);
    }
    sent.extend(std::iter::from_fn(|| end.poll_transmit(now)));
}

/// The next segment that arrived by `now`.
fn arrived(path: &mut VecDeque<(Time, Segment)>, now: Time) -> Option<Segment> {
    path.front().filter(|(at, _)| *at <= now)?;
    path.pop_front().map(|(_, segment)| segment)
}

/// Download size, bytes.
const SIZE: u64 = 1_500_000;

#[test]
fn predicted_segments_leave_the_same_state_and_output_as_the_slow_path() {
    predicted_as_on_the_slow_path(&["cubic"]);
}

#[test]
#[ignore = "long: make torture"]
fn predicted_segments_of_other_algorithms_leave_the_same_state_and_output_as_the_slow_path() {
    predicted_as_on_the_slow_path(&["reno", "bbr", "westwood", "vegas"]);
}

fn predicted_as_on_the_slow_path(algorithms: &[&str]) {
    for cc in algorithms {
        for (config, loss) in [
            (Config::default(), 0.0),
            (Config::default(), 0.01),
            (Config { abc: false, timestamps: false, tlp: false, ..Config::default() }, 0.003),
            (Config { pacing: true, ..Config::default() }, 0.003),
            (Config { delayed_acks: false, ..Config::default() }, 0.003),
            (System::named("linux-6.1").unwrap().config(), 0.003),
            (Config { tick: Time::from_millis(4), ..Config::default() }, 0.003),
            (Config { nagle: true, ..System::named("rfc").unwrap().config() }, 0.003),
        ] {
            for relayed in [None, Some(16)] {
                let ([from, to], advances) = compare(cc, &config, loss, relayed, Time::from_micros(500));
                let share = |(predicted, all): (u32, u32)| f64::from(predicted) / f64::from(all);
                let least = if loss > 0.005 || relayed.is_some() { 0.05 } else { 0.3 };
                assert!(loss < 0.005 || advances > 50, "{cc}: {advances} ACKs that only extend a SACK block");
                assert!(share(from) > least, "{cc}: (predicted, all) ACKs {from:?}");
                assert!(share(to) > 0.2, "{cc}: (predicted, all) data {to:?}");
            }
        }
    }
}

#[test]
fn predicted_turns_stay_application_limited_where_the_slow_path_does() {
    // BBR is disturbed only while it probes for the minimum round-trip time, every ten seconds.
    let ([from, _], _) = compare("bbr", &Config::default(), 0.0, None, Time::from_millis(20));
    assert!(from.0 > from.1 / 2, "(predicted, all) ACKs {from:?}");
}

#[test]
fn a_congestion_control_that_ends_pacing_releases_what_it_held_back() {
    // Careful Resume paces its jump, and ends pacing with the first acknowledgement of it.
    let careful = [("slow_start", "careful"), ("saved_window", "1000 packets"), ("saved_rtt", "600 ms")];
    for cc in ["reno", "cubic"] {
        let selected = Selected::parse(cc, &careful).unwrap();
        compare_over(&selected, &Config::default(), 0.0, None, (Time::from_micros(240), Time::from_millis(300)));
    }
}

/// Two copies of a sender that receive the same segments: one sets its timer each turn, one defers it in a batch.
struct Twins<'a> {
    in_time: Endpoint,
    in_batch: Batch<'a>,
    /// Number of turns that deferred the timer, and of those that proved it idle without setting it.
    deferred: (u32, u32),
}

impl Twins<'_> {
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
        if self.in_batch.next_paced() == Some(now) && self.in_batch.is_idle_through(now) {
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
        self.in_batch.send(now, |train| sent.extend(train.headers().map(Segment::from)));
        if self.in_batch.has_output() {
            let end = self.in_batch.endpoint();
            sent.extend(std::iter::from_fn(|| end.poll_transmit(now)));
        }
    }

    /// Waits until `next`: no other event occurs unless a timer fires.
    fn wait(&mut self, next: Time) {
        let mut settled = self.in_batch.clone();
        settled.in_batch(|_| ());
        let deadline = self.in_time.deadline();
        for at in [next, deadline, deadline + Time::from_nanos(1)] {
            assert_eq!(self.in_batch.clone().in_batch(|mut batch| batch.is_idle_until(at)), at <= deadline, "{at:?}");
        }
        self.in_time.sender.timer.bound = settled.sender.timer.bound;
        self.in_time.sender.rate = settled.sender.rate;
        assert_eq!(format!("{:?}", self.in_time), format!("{settled:?}"), "{next:?}");
        let was_deferred = self.defers();
        self.in_batch.is_idle_until(next);
        self.deferred.0 += u32::from(was_deferred);
        self.deferred.1 += u32::from(was_deferred && self.defers());
    }

    fn defers(&self) -> bool {
        self.in_batch.sender.timer.is_deferred()
    }
}

/// Runs the download to its end; returns the number of turns that deferred the timer, and of those that proved it idle without setting it.
fn download(to: &mut Endpoint, mut from: Twins<'_>, loss: f64) -> (u32, u32) {
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
    from.deferred
}

#[test]
fn a_timer_deferred_by_a_batch_gets_the_deadline_it_would_have_had() {
    for (cc, loss) in [("cubic", 0.0), ("cubic", 0.002), ("reno", 0.01), ("bbr", 0.0)] {
        let selected = Selected::parse(cc, &[]).unwrap();
        let config = Config::default();
        let (mut to, mut from) = (Endpoint::client(&config, &selected, 1), Endpoint::server(&config, &selected, 2));
        let in_time = from.clone();
        let (deferred, clear) =
            from.in_batch(|in_batch| download(&mut to, Twins { in_time, in_batch, deferred: (0, 0) }, loss));
        assert_eq!(to.received(), SIZE, "{cc}");
        assert!(clear > deferred / 2, "{cc}: {clear} of {deferred}");
    }
}

/// A receiver that processes what arrives as soon as the times are known.
struct AheadOfTime {
    end: Endpoint,
    /// The segments it has sent.
    answers: Vec<(Time, Segment)>,
}

impl AheadOfTime {
    fn run_timers_before(&mut self, at: Time) {
        while self.end.deadline() < at {
            let due = self.end.deadline();
            self.end.on_timer(due);
            self.answer(due);
        }
    }

    fn take(&mut self, at: Time, segment: &Segment) {
        self.run_timers_before(at);
        self.end.on_segment(at, segment, false);
        self.answer(at);
    }

    fn answer(&mut self, at: Time) {
        let mut sent = Vec::new();
        transmit(&mut self.end, at, &mut sent);
        self.answers.extend(sent.into_iter().map(|segment| (at, segment)));
    }

    /// Takes a train, and the same in a copy segment by segment; returns the number of segments that were taken together.
    fn take_train(&mut self, times: &[Time], mut train: Train) -> u32 {
        let first = train.take_first(1);
        first.headers().for_each(|header| self.take(times[0], &header.into()));
        let mut each = Self { end: self.end.clone(), answers: self.answers.clone() };
        let Self { end, answers } = self;
        let are_taken = end.on_next_train(&times[1..], train, |at, header| answers.push((at, header.into())));
        let state = format!("{end:?}");
        if !are_taken {
            assert_eq!(state, format!("{:?}", each.end), "no effect");
        }
        times[1..].iter().zip(train.headers()).for_each(|(at, header)| each.take(*at, &header.into()));
        if are_taken {
            each.end.prediction = self.end.prediction;
            assert_eq!(format!("{:?}", self.answers), format!("{:?}", each.answers), "{train:?} at {times:?}");
            assert_eq!(state, format!("{:?}", each.end), "{train:?} at {times:?}");
        }
        *self = each;
        if are_taken {
            train.segments
        } else {
            0
        }
    }
}

/// Downloads in trains through a bottleneck with a service time of `service` per segment; returns the number of segments that the receiver
/// took together, and of all in trains but their first ones.
fn download_in_trains(cc: &str, config: &Config, service: Time) -> (u32, u32) {
    let selected = Selected::parse(cc, &[]).unwrap();
    let mut to = AheadOfTime { end: Endpoint::client(config, &selected, 1), answers: Vec::new() };
    let mut from = Endpoint::server(config, &selected, 2);
    let (mut acks, mut now, mut free_at) = (VecDeque::new(), Time::ZERO, Time::ZERO);
    let (mut together, mut all) = (0, 0);
    to.end.open(now);
    to.answer(now);
    from.write(SIZE);
    from.close();
    loop {
        let delay = Time::from_millis(20);
        acks.extend(to.answers.drain(..).map(|(at, segment)| (at + delay, segment)));
        let arrival = acks.front().map_or(Time::MAX, |(at, _)| *at);
        now = arrival.min(from.deadline());
        if now == Time::MAX {
            break;
        }
        while let Some(segment) = arrived(&mut acks, now) {
            from.on_segment(now, &segment, false);
        }
        from.on_timer(now);
        let mut trains = Vec::new();
        from.in_batch(|mut batch| batch.send(now, |train| trains.push(train)));
        let mut arrives = || {
            free_at = now.max(free_at) + service;
            free_at + delay
        };
        for train in trains {
            let times: Vec<_> = (0..train.segments).map(|_| arrives()).collect();
            together += to.take_train(&times, train);
            all += train.segments - 1;
        }
        while let Some(segment) = from.poll_transmit(now) {
            to.take(arrives(), &segment);
        }
        if acks.is_empty() && to.answers.is_empty() {
            to.run_timers_before(from.deadline());
        }
    }
    assert_eq!(to.end.received(), SIZE, "{cc}");
    (together, all)
}

#[test]
fn a_train_leaves_the_same_state_and_acks_as_its_segments() {
    for cc in ["cubic", "bbr"] {
        for config in [
            Config::default(),
            Config { timestamps: false, ..Config::default() },
            Config { delayed_acks: false, ..Config::default() },
            System::named("linux-6.1").unwrap().config(),
        ] {
            for service in [1, 100, 5_000].map(Time::from_micros) {
                let (together, all) = download_in_trains(cc, &config, service);
                assert!(all > 50 && together > all / 3, "{cc}, {service:?}: {together} of {all} segments together");
            }
        }
    }
}
