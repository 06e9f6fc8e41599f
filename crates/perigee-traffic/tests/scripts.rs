//! Scripts played over a connection that only delays.

use perigee_results::{Amount, FlowId, Frames, Measured, Tables, Talk};
use perigee_traffic::{
    Action, Adaptation, App, Bulk, Call, Constant, Datagram, Datagrams, End, Facts, Offered, Ping, Requests, Script,
    Video, Voice,
};
use perigee_units::{Bytes, Rate, Stream, Time};
use proptest::prelude::*;

/// An instant, ms, an end, and what the application does there then.
type Step = (u64, End, Action);

/// One end of the toy connection.
#[derive(Default)]
struct Host {
    facts: Facts,
    written: u64,
    /// Data written at the other end: arrival, bytes so far, and whether the stream ends there.
    arriving: Vec<(Time, u64, bool)>,
    waits_until: Option<Time>,
    is_done: bool,
}

/// Plays a script from `start` on; each byte arrives `delay` after it was written; each question is asked `questions` times.
/// Returns the steps, and the completion of the flow if there is one.
fn play(script: &mut Script, start: Time, delay: Time, questions: u32) -> (Vec<Step>, Option<Time>) {
    let mut hosts = [Host::default(), Host::default()];
    let (mut steps, mut completed, mut now) = (Vec::new(), None, start);
    loop {
        for host in &mut hosts {
            host.arriving.retain(|(at, bytes, closed)| {
                if *at <= now {
                    host.facts.received = host.facts.received.max(*bytes);
                    host.facts.closed |= closed;
                }
                *at > now
            });
        }
        let received = hosts[1].facts.received;
        let is_complete = received >= script.awaited() && script.delivered(now, received) || now >= script.ends_at();
        if is_complete && completed.is_none() {
            completed = Some(now);
        }
        for end in [End::To, End::From] {
            act(script, end, now, delay, (&mut hosts, &mut steps), questions);
        }
        let arrivals = hosts.iter().flat_map(|host| host.arriving.iter().map(|(at, ..)| *at));
        let instants = hosts.iter().filter_map(|host| host.waits_until);
        let Some(next) = arrivals.chain(instants).filter(|at| *at > now).min() else { return (steps, completed) };
        now = next;
    }
}

/// Carries out all actions that are possible at one end now.
fn act(
    script: &mut Script,
    end: End,
    now: Time,
    delay: Time,
    (hosts, steps): (&mut [Host; 2], &mut Vec<Step>),
    questions: u32,
) {
    while !hosts[end as usize].is_done {
        let host = &mut hosts[end as usize];
        host.facts.now = now;
        host.waits_until = None;
        let action = script.next(end, host.facts);
        match action {
            Action::Write(bytes) => {
                host.written += bytes;
                let written = host.written;
                hosts[1 - end as usize].arriving.push((now + delay, written, false));
                if end == End::To {
                    script.request_sent(now, written);
                }
            }
            Action::HalfClose | Action::Stop => {
                let written = host.written;
                hosts[1 - end as usize].arriving.push((now + delay, written, true));
            }
            Action::Fill { .. } | Action::Withdraw => {}
            Action::Done => host.is_done = true,
            Action::Await(_) | Action::AwaitClose | Action::Wait(_) => {
                if let Action::Wait(at) = action {
                    host.waits_until = Some(at);
                }
                for _ in 1..questions {
                    assert_eq!(script.next(end, host.facts), action, "asked too early, the answer is the same");
                }
                // Each wait of an end is recorded once.
                if steps.iter().rev().find(|(_, at, _)| *at == end).is_none_or(|(_, _, last)| *last != action) {
                    steps.push((now.as_millis(), end, action));
                }
                return;
            }
        }
        steps.push((now.as_millis(), end, action));
    }
}

fn steps_at(steps: &[Step], end: End) -> Vec<(u64, Action)> {
    steps.iter().filter(|(_, at, _)| *at == end).map(|(ms, _, action)| (*ms, *action)).collect()
}

/// Start, ms, sizes, and length, ms, of each exchange.
fn exchanges(script: &Script) -> Vec<(f64, u64, u64, Option<f64>)> {
    let mut tables = Tables::default();
    script.write(FlowId { run: 0, flow: &"f".into(), leg: None }, Time::ZERO, &mut tables);
    let table = tables.exchanges;
    (0..table.number.len())
        .map(|row| {
            let ms = (table.start_s[row] * 1e3).round();
            (ms, table.request_bytes[row], table.response_bytes[row], table.duration_ms[row])
        })
        .collect()
}

fn script(app: &App, start: Time) -> Script {
    Script::new(app, start, random())
}

/// Unused by the kinds of these tests.
fn random() -> Stream {
    Stream::new(1, "flow/f/traffic")
}

fn percent(share: f64) -> u32 {
    (share * 100.0).round() as u32
}

const MS: fn(u64) -> Time = Time::from_millis;

#[test]
fn a_transfer_of_a_size_ends_with_its_last_byte_and_each_end_closes() {
    let app = App::Bulk(Bulk { amount: Amount::Size(Bytes::new(9_000)), offered: Vec::new() });
    let mut script = script(&app, MS(5));
    assert_eq!((script.awaited(), script.ends_at(), script.is_interactive()), (9_000, Time::MAX, false));
    let (steps, completed) = play(&mut script, MS(5), MS(10), 3);
    assert_eq!(completed, Some(MS(15)));
    let sender = [(5, Action::Write(9_000)), (5, Action::HalfClose), (5, Action::AwaitClose), (25, Action::Done)];
    assert_eq!(steps_at(&steps, End::From), sender);
    assert_eq!(steps_at(&steps, End::To), [(5, Action::AwaitClose), (15, Action::HalfClose), (15, Action::Done)]);
    assert_eq!([4_500, 9_000].map(|bytes| percent(script.progress(MS(10), bytes))), [50, 100]);
    assert_eq!(exchanges(&script), []);
}

#[test]
fn a_transfer_for_a_time_fills_the_connection_until_its_end_whatever_is_delivered() {
    let app = App::Bulk(Bulk { amount: Amount::Duration(MS(100)), offered: Vec::new() });
    let mut script = script(&app, MS(50));
    assert_eq!((script.awaited(), script.ends_at()), (u64::MAX, MS(150)));
    assert!(!script.delivered(MS(149), u64::MAX));
    assert_eq!([75, 900].map(|ms| percent(script.progress(MS(ms), 0))), [25, 100]);
    let (steps, completed) = play(&mut script, MS(50), MS(10), 2);
    assert_eq!(completed, Some(MS(150)));
    let sender =
        [(50, Action::Fill { until: MS(150) }), (50, Action::Wait(MS(150))), (150, Action::Stop), (150, Action::Done)];
    assert_eq!(steps_at(&steps, End::From), sender);
}

/// An application that offers these rates, each from an instant in ms on.
fn offering(amount: Amount, rates: &[(u64, &str)]) -> App {
    let rate = |(at, rate): &(u64, &str)| Offered { at: MS(*at), rate: rate.parse().expect("a rate") };
    App::Bulk(Bulk { amount, offered: rates.iter().map(rate).collect() })
}

#[test]
fn an_application_writes_its_rate_and_nothing_while_it_is_silent() {
    let rates = [(0, "11.584 Mbit/s"), (3, "0 bit/s"), (6, "unlimited"), (8, "5.792 Mbit/s")];
    let app = offering(Amount::Duration(MS(11)), &rates);
    assert_eq!(
        app.to_string(),
        "for 11 ms, offered 11.584 Mbit/s, from 3 ms on nothing, from 6 ms on without limit, from 8 ms on 5.792 Mbit/s"
    );
    let mut script = script(&app, MS(100));
    let (steps, completed) = play(&mut script, MS(100), MS(10), 2);
    assert_eq!(completed, Some(MS(111)));
    // 1448 B a millisecond, and half of that.
    let write = Action::Write(1448);
    let expected = [
        (100, write),
        (100, Action::Wait(MS(101))),
        (101, write),
        (101, Action::Wait(MS(102))),
        (102, write),
        (102, Action::Wait(MS(103))),
        (103, Action::Withdraw),
        (103, Action::Wait(MS(106))),
        (106, Action::Withdraw),
        (106, Action::Fill { until: MS(108) }),
        (106, Action::Wait(MS(108))),
        (108, Action::Withdraw),
        (108, write),
        (108, Action::Wait(MS(110))),
        (110, write),
        (110, Action::Wait(MS(111))),
        (111, Action::Stop),
        (111, Action::Done),
    ];
    assert_eq!(steps_at(&steps, End::From), expected);
}

#[test]
fn an_application_that_is_late_writes_what_it_owes() {
    let app = offering(Amount::Size(Bytes::new(10_000)), &[(0, "11.584 Mbit/s")]);
    let mut script = script(&app, MS(0));
    let mut at = |ms: u64| {
        let facts = Facts { now: MS(ms), ..Facts::default() };
        let mut written = 0;
        loop {
            match script.next(End::From, facts) {
                Action::Write(bytes) => written += bytes,
                action => break (written, action),
            }
        }
    };
    assert_eq!(at(50), (1448, Action::Wait(MS(51))), "the connection stands, and offering begins");
    assert_eq!(at(54), (4 * 1448, Action::Wait(MS(55))));
    assert_eq!(at(60), (10_000 - 5 * 1448, Action::HalfClose), "no more than its size");
    assert!(app.least_s(0.1) > 0.15, "{} s", app.least_s(0.1));
}

#[test]
fn requests_follow_their_responses_after_a_pause_and_an_exchange_is_a_round_trip() {
    let requests = Requests { request: Bytes::new(400), response: Bytes::new(60_000), think: MS(50), count: 2 };
    let mut script = script(&App::Requests(requests), MS(0));
    assert!(script.is_interactive());
    let (steps, completed) = play(&mut script, MS(0), MS(10), 3);
    assert_eq!(completed, Some(MS(90)));
    let client = [
        (0, Action::Write(400)),
        (0, Action::Await(60_000)),
        (20, Action::Wait(MS(70))),
        (70, Action::Write(400)),
        (70, Action::Await(120_000)),
        (90, Action::HalfClose),
        (90, Action::Done),
    ];
    assert_eq!(steps_at(&steps, End::To), client);
    let server = [
        (0, Action::Await(400)),
        (10, Action::Write(60_000)),
        (10, Action::Await(800)),
        (80, Action::Write(60_000)),
        (80, Action::AwaitClose),
        (100, Action::HalfClose),
        (100, Action::Done),
    ];
    assert_eq!(steps_at(&steps, End::From), server);
    assert_eq!(exchanges(&script), [(0.0, 400, 60_000, Some(20.0)), (70.0, 400, 60_000, Some(20.0))]);
}

#[test]
fn a_player_asks_for_segment_after_segment_where_its_buffer_has_room() {
    let video = Video {
        duration: Time::from_secs(10),
        segment: Time::from_secs(4),
        ladder: [1.0, 2.0].map(Rate::from_mbps).to_vec(),
        algorithm: Adaptation::Rate,
        buffer: Time::from_secs(8),
        startup: Time::ZERO,
        request: Bytes::new(400),
    };
    let app = App::Video(video);
    assert_eq!((app.exchanges(), app.bytes_both_ways()), (3, Some(3 * 400 + 2_500_000)));
    let mut script = script(&app, MS(0));
    let (steps, completed) = play(&mut script, MS(0), MS(10), 3);
    assert_eq!(completed, Some(MS(2_040)));
    // The lowest rate at first. A download of 500 kB in 20 ms is faster than any rate. With 8 s of video at 40 ms the last
    // segment, of 2 s, has room once 2 s are played.
    let client = [
        (0, Action::Write(400)),
        (0, Action::Await(500_000)),
        (20, Action::Write(400)),
        (20, Action::Await(1_500_000)),
        (40, Action::Wait(MS(2_020))),
        (2_020, Action::Write(400)),
        (2_020, Action::Await(2_000_000)),
        (2_040, Action::HalfClose),
        (2_040, Action::Done),
    ];
    assert_eq!(steps_at(&steps, End::To), client);
    let sent = steps_at(&steps, End::From).into_iter().filter(|(_, action)| matches!(action, Action::Write(_)));
    let sent: Vec<_> = sent.collect();
    let sizes = [(10, Action::Write(500_000)), (30, Action::Write(1_000_000)), (2_030, Action::Write(500_000))];
    assert_eq!(sent, sizes);
    let mut tables = Tables::default();
    script.write(FlowId { run: 0, flow: &"f".into(), leg: None }, MS(2_040), &mut tables);
    let videos = tables.videos;
    assert_eq!((videos.segments[0], videos.stalls[0], videos.switches[0]), (3, 0, 1));
    assert_eq!((videos.startup_delay_s[0], videos.bitrate_mbps[0]), (Some(0.02), Some((4.0 + 8.0 + 4.0) / 10.0)));
}

#[test]
fn the_packets_of_a_frame_leave_together_and_are_as_equal_as_bytes_allow() {
    let frames = Frames { per_second: 30, packets: 3, deadline: MS(150), warmup: Time::ZERO };
    let call = Datagrams::Call(Call { rate: Rate::from_bps(241_680), duration: MS(67), frames });
    // 1007 B each 1/30 s: at 0, 33.3 and 66.7 ms.
    let expected = [(0, 0, 336), (1, 0, 336), (2, 0, 335)].map(|(number, ns, bytes)| (number, ns, bytes));
    let sent: Vec<_> = call
        .schedule(MS(5), random())
        .map(|datagram| (datagram.number, (datagram.at - MS(5)).as_nanos(), datagram.packet.as_u64()))
        .collect();
    assert_eq!(sent[..3], expected);
    assert_eq!(sent.len(), 9);
    assert_eq!([sent[3].1, sent[6].1], [33_333_333, 66_666_666]);
    assert_eq!((call.largest_packet(), call.smallest_packet()), (Bytes::new(336), Bytes::new(335)));
    assert_eq!(call.measured(), Measured::Call(frames));
}

#[test]
fn an_exchange_begins_with_the_first_byte_that_is_seen_of_its_request_and_not_before() {
    let requests = Requests { request: Bytes::new(400), response: Bytes::new(1_000), think: Time::ZERO, count: 2 };
    let mut script = script(&App::Requests(requests), MS(0));
    script.request_sent(MS(1), 400);
    assert_eq!(exchanges(&script), [], "nothing was asked yet");
    assert_eq!(script.next(End::To, Facts { now: MS(2), ..Facts::default() }), Action::Write(400));
    assert_eq!((exchanges(&script), script.awaited()), (vec![], u64::MAX));
    script.request_sent(MS(3), 1);
    script.request_sent(MS(4), 400);
    assert_eq!((exchanges(&script), script.awaited()), (vec![(3.0, 400, 1_000, None)], 1_000));
    assert!(!script.delivered(MS(7), 999));
    assert!(!script.delivered(MS(8), 1_000));
    assert_eq!(exchanges(&script), [(3.0, 400, 1_000, Some(5.0))]);
    // A response delivered twice completes nothing else.
    assert!(!script.delivered(MS(9), 5_000));
    assert_eq!(exchanges(&script).len(), 1);
}

#[test]
fn datagrams_at_a_rate_leave_without_drift_until_the_duration_is_over() {
    let constant = Constant { rate: "3 Mbit/s".parse().expect("a rate"), packet: Bytes::new(1_000), duration: MS(20) };
    let datagrams = Datagrams::Constant(constant);
    let mut schedule = datagrams.schedule(MS(7), random());
    assert_eq!((schedule.next_instant(), schedule.is_over()), (MS(7), false));
    let all: Vec<Datagram> = schedule.by_ref().collect();
    // 8,000 bits at 3 Mbit/s: 2 2/3 ms.
    assert_eq!(all.len(), 8);
    let due: Vec<u64> = all.iter().map(|datagram| (datagram.at - MS(7)).as_nanos()).collect();
    assert_eq!(due[..4], [0, 2_666_666, 5_333_333, 8_000_000]);
    assert_eq!((schedule.next_instant(), schedule.is_over()), (Time::MAX, true));
    assert_eq!((datagrams.length(), datagrams.is_answered(), datagrams.exchanges()), (MS(20), false, 0));
    assert_eq!(percent(schedule.progress(MS(17))), 50);
}

#[test]
fn pings_leave_at_their_interval_and_each_is_an_exchange() {
    let ping = Ping { interval: MS(100), packet: Bytes::new(64), count: 3 };
    let datagrams = Datagrams::Ping(ping);
    let mut schedule = datagrams.schedule(MS(10), random());
    let first = schedule.next();
    assert_eq!(first, Some(Datagram { number: 0, at: MS(10), packet: Bytes::new(64) }));
    assert_eq!(percent(schedule.progress(MS(0))), 33);
    let rest: Vec<(u32, Time)> = schedule.map(|datagram| (datagram.number, datagram.at)).collect();
    assert_eq!(rest, [(1, MS(110)), (2, MS(210))]);
    assert_eq!((datagrams.length(), datagrams.is_answered(), datagrams.exchanges()), (MS(300), true, 3));
}

/// G.711 for a number of seconds, with the default lengths of talk spurts and silences.
fn speech(seconds: u64) -> Voice {
    let talk = Talk { interval: MS(20), playout: MS(60), concealment: true, warmup: MS(0) };
    Voice { packet: Bytes::new(218), on: MS(400), off: MS(600), duration: Time::from_secs(seconds), talk }
}

#[test]
fn speech_without_pauses_leaves_at_87_kilobits_per_second() {
    let voice = Voice { off: MS(0), ..speech(2) };
    let all: Vec<Datagram> = Datagrams::Voice(voice).schedule(MS(5), random()).collect();
    assert_eq!((all.len(), Datagrams::Voice(voice).rate_bps()), (100, 87_200.0));
    assert!(all.windows(2).all(|pair| pair[1].at - pair[0].at == MS(20)));
    assert_eq!(Datagrams::Voice(voice).measured(), Measured::Voice(voice.talk));
}

#[test]
fn talk_spurts_and_silences_have_exponential_lengths() {
    let voice = speech(20_000);
    let all: Vec<Time> = Datagrams::Voice(voice).schedule(MS(0), random()).map(|datagram| datagram.at).collect();
    let (mut spurts, mut silences, mut packets) = (Vec::new(), Vec::new(), 1u32);
    for pair in all.windows(2) {
        let gap = pair[1] - pair[0];
        if gap == MS(20) {
            packets += 1;
        } else {
            // A spurt of k packets lasts at least k - 1 intervals and less than k of them: so its length is observed.
            spurts.push(f64::from(packets));
            silences.push(gap.as_secs_f64());
            packets = 1;
        }
    }
    // The packets of a spurt are geometric: more than k with probability exp(-20 k / 400). Within four standard errors.
    let n = spurts.len() as f64;
    assert!(n > 10_000.0, "{n} talk spurts");
    for k in [1.0, 10.0, 30.0, 60.0] {
        let (share, expected) =
            (spurts.iter().filter(|packets| **packets > k).count() as f64 / n, (-k / 20.0f64).exp());
        assert!((share - expected).abs() < 4.0 * (expected * (1.0 - expected) / n).sqrt(), "{k}: {share}, {expected}");
    }
    // From the last packet of a spurt, which is up to 20 ms old when it ends, to the next: 600 ms, and 10 ms in the mean.
    let mean = silences.iter().sum::<f64>() / n;
    assert!((mean - 0.610).abs() < 4.0 * 0.6 / n.sqrt(), "{mean}");
}

#[test]
fn a_schedule_that_is_stopped_sends_nothing_more() {
    let ping = Ping { interval: MS(100), packet: Bytes::new(64), count: 3 };
    let mut schedule = Datagrams::Ping(ping).schedule(MS(0), random());
    schedule.next();
    schedule.stop();
    assert_eq!((schedule.next(), schedule.next_instant(), schedule.is_over()), (None, Time::MAX, true));
}

#[test]
fn kinds_say_what_they_carry_in_a_few_words() {
    let requests = Requests { request: Bytes::new(400), response: Bytes::new(60_000), think: MS(50), count: 2 };
    let rate: Rate = "3 Mbit/s".parse().expect("a rate");
    let constant = Constant { rate, packet: Bytes::new(200), duration: MS(20) };
    let ping = Ping { interval: MS(100), packet: Bytes::new(64), count: 3 };
    for (name, text, expected) in [
        (
            Bulk::NAME,
            App::Bulk(Bulk { amount: Amount::Size(Bytes::new(9_000)), offered: Vec::new() }).to_string(),
            "9 kB",
        ),
        (
            Bulk::NAME,
            App::Bulk(Bulk { amount: Amount::Duration(MS(100)), offered: Vec::new() }).to_string(),
            "for 100 ms",
        ),
        (Requests::NAME, App::Requests(requests).to_string(), "2 times 400 B asked, 60 kB answered, 50 ms between"),
        (Constant::NAME, Datagrams::Constant(constant).to_string(), "3 Mbit/s in packets of 200 B for 20 ms"),
        (
            Voice::NAME,
            Datagrams::Voice(speech(9)).to_string(),
            "218 B each 20 ms for 9 s, 400 ms of speech and 600 ms of silence in the mean, played after 60 ms",
        ),
        (Ping::NAME, Datagrams::Ping(ping).to_string(), "3 of 64 B, one each 100 ms"),
    ] {
        assert_eq!(text, expected, "{name}");
    }
}

fn apps() -> impl Strategy<Value = App> {
    let bulk = (1u64..1_000_000)
        .prop_map(|size| App::Bulk(Bulk { amount: Amount::Size(Bytes::new(size)), offered: Vec::new() }));
    let requests = (1u64..10_000, 1u64..1_000_000, 0u64..200, 1u32..6).prop_map(|(request, response, think, count)| {
        let (request, response) = (Bytes::new(request), Bytes::new(response));
        App::Requests(Requests { request, response, think: MS(think), count })
    });
    prop_oneof![bulk, requests]
}

proptest! {
    #[test]
    fn every_script_completes_with_as_many_bytes_and_exchanges_as_it_states(
        app in apps(), start in 0u64..1_000, delay in 1u64..300, questions in 1u32..4
    ) {
        let mut script = script(&app, MS(start));
        let (steps, completed) = play(&mut script, MS(start), MS(delay), questions);
        let written = steps.iter().map(|(.., action)| if let Action::Write(bytes) = action { *bytes } else { 0 });
        prop_assert_eq!(Some(written.sum::<u64>()), app.bytes_both_ways());
        let rows = exchanges(&script);
        prop_assert_eq!(rows.len() as u64, app.exchanges());
        prop_assert!(rows.iter().all(|(.., length)| *length == Some(2.0 * delay as f64)), "{rows:?}");
        let length_s = (completed.expect("complete") - MS(start)).as_secs_f64();
        // The toy has no handshake, which is one round trip of what a kind states.
        let least_s = app.least_s(2e-3 * delay as f64) - 2e-3 * delay as f64;
        prop_assert!((length_s - least_s).abs() < 1e-9, "{length_s} s, at the least {least_s} s");
        for end in [End::From, End::To] {
            prop_assert!(matches!(steps_at(&steps, end).last(), Some((_, Action::Done))));
        }
    }
}
