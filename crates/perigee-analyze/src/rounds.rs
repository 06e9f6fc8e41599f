//! The waits of a flow's sender over time: for each stretch of about a round trip, for how long what kept it from sending.
//!
//! Each pause between two packets of data counts for what ended it: an application that wrote (the packet before was short or had PSH, or
//! nothing was in flight), an acknowledgement that opened the receiver's window, one that made room in the sender's own, a timeout, or
//! none of these: then the sender paced. Zhang, Breslau, Paxson, Shenker, "On the Characteristics and Origins of Internet Flow
//! Rates", SIGCOMM 2002, tell causes apart so.

use perigee_results::{Name, RoundRow, Rounds};
use perigee_units::Time;

/// The rounds of a flow.
pub(crate) struct RoundMeter {
    start: Time,
    width: Time,
    sees_sender: bool,
    rounds: Vec<Round>,
    last_sent: Option<Time>,
    /// The last packet was shorter than a segment, or had PSH.
    was_short: bool,
    was_pushed: bool,
    /// Bytes that were sent together up to the last packet.
    train: u32,
    /// The last packet of the other direction.
    answer: Answer,
    /// Time between acknowledgements, smoothed, ns.
    between_answers: f64,
    /// Since when the receiver's window has had no room for a segment, and when it last had none.
    full: (Option<Time>, Option<Time>),
}

#[derive(Clone, Copy, Default)]
struct Answer {
    at: Option<Time>,
    has_data: bool,
}

/// A pause of the sender.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Application,
    Receiver,
    Window,
    Pacing,
    Timeout,
}

#[derive(Clone, Copy, Default)]
struct Round {
    sent: u64,
    arrived: u64,
    again: u64,
    in_flight: u64,
    rtt_min: Option<Time>,
    waits: [Time; 5],
}

/// A packet of data, as the meter takes it.
pub(crate) struct SentData {
    /// Its payload, bytes.
    pub(crate) bytes: u32,
    /// It is shorter than a segment, or has PSH.
    pub(crate) is_short: bool,
    pub(crate) is_pushed: bool,
    /// Data in flight before and after it.
    pub(crate) in_flight: (u64, u64),
    /// Its data were sent before.
    pub(crate) is_again: bool,
    /// Bytes that the receiver's window still has room for behind it.
    pub(crate) room: Option<u64>,
}

impl RoundMeter {
    /// A flow from `start` to `end` with this shortest round trip; `sees_sender`: the capture was taken there.
    pub(crate) fn new(start: Time, end: Time, round_trip: Option<Time>, sees_sender: bool) -> Self {
        let least = Time::from_nanos(end.checked_sub(start).unwrap_or_default().as_nanos() / MOST as u64);
        Self {
            start,
            width: round_trip.unwrap_or_default().max(LEAST).max(least),
            sees_sender,
            rounds: Vec::new(),
            last_sent: None,
            was_short: false,
            was_pushed: false,
            train: 0,
            answer: Answer::default(),
            between_answers: 0.0,
            full: (None, None),
        }
    }

    /// A packet of data is sent.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time, data: &SentData, segment: u32) {
        let since = self.last_sent.unwrap_or(self.start);
        let wait = self.wait(now, since, data, segment);
        self.waited(wait, since, now);
        let round = self.round(now);
        round.sent += u64::from(data.bytes);
        round.again += u64::from(data.is_again);
        round.in_flight = round.in_flight.max(data.in_flight.1);
        let is_together = now.checked_sub(since).is_some_and(|pause| pause <= TOGETHER);
        self.train = if is_together { self.train.saturating_add(data.bytes) } else { data.bytes };
        self.last_sent = Some(now);
        (self.was_short, self.was_pushed) = (data.is_short, data.is_pushed);
        if data.room.is_some_and(|room| room < u64::from(segment)) {
            self.full.0.get_or_insert(now);
        }
    }

    fn wait(&self, now: Time, since: Time, data: &SentData, segment: u32) -> Wait {
        if self.last_sent.is_none() {
            return Wait::Window;
        }
        if self.full.1.is_some_and(|until| until >= since) || self.full.0.is_some() {
            return Wait::Receiver;
        }
        let pause = now - since;
        if data.is_again && pause >= TIMEOUT {
            return Wait::Timeout;
        }
        let is_released = self.is_released(now, pause);
        let is_asked = is_released && self.answer.has_data;
        match () {
            // An acknowledgement of all that was in flight lets the next packet go too.
            () if (data.in_flight.0 == 0 || self.was_short) && !is_released => Wait::Application,
            () if (self.was_short || self.was_pushed) && is_asked => Wait::Application,
            () if self.was_pushed && !is_released && !self.is_paced(pause, segment) => Wait::Application,
            () if self.sees_sender && !is_released => Wait::Pacing,
            () => Wait::Window,
        }
    }

    /// Whether the packets before a pause, the last of which had PSH, are a train of Linux's pacing: two segments, or as many as its rate
    /// sends within a millisecond (`tcp_tso_autosize`).
    fn is_paced(&self, pause: Time, segment: u32) -> bool {
        self.train > segment && (self.train <= 2 * segment || pause <= LONGEST_TRAIN)
    }

    /// Whether a packet of now follows an acknowledgement at once: by the time that these are apart, or by the pause that it ends, since
    /// many acknowledgements may come together.
    fn is_released(&self, now: Time, pause: Time) -> bool {
        let Some(at) = self.answer.at.filter(|_| self.sees_sender) else { return false };
        let soon = ((self.between_answers * AT_ONCE) as u64).max(pause.as_nanos() / AT_ONCE_OF_PAUSE);
        (now - at).as_nanos() <= soon.clamp(SOONEST.as_nanos(), LATEST.as_nanos())
    }

    /// An acknowledgement passes, which leaves so much room in the receiver's window behind what was sent.
    #[inline]
    pub(crate) fn answered(&mut self, now: Time, has_data: bool, room: u64, segment: u32) {
        if let Some(before) = self.answer.at.filter(|before| *before < now) {
            let apart = (now - before).as_nanos() as f64;
            self.between_answers += (apart - self.between_answers) / 8.0;
        }
        self.answer = Answer { at: Some(now), has_data };
        if room >= u64::from(segment) && self.full.0.take().is_some() {
            self.full.1 = Some(now);
        }
    }

    /// A round trip was measured.
    #[inline]
    pub(crate) fn round_trip(&mut self, now: Time, sample: Time) {
        let round = self.round(now);
        round.rtt_min = Some(round.rtt_min.map_or(sample, |least| least.min(sample)));
    }

    /// Bytes that arrived since the beginning, in order or not.
    #[inline]
    pub(crate) fn arrived(&mut self, now: Time, bytes: u64) {
        let round = self.round(now);
        round.arrived = round.arrived.max(bytes);
    }

    fn waited(&mut self, wait: Wait, mut from: Time, to: Time) {
        while from < to {
            // The last round has no end: a damaged clock may be far behind it.
            let place = self.place(from);
            let until = if place < LAST { to.min(self.start + self.width * (place as u64 + 1)) } else { to };
            self.round(from).waits[wait as usize] += until - from;
            from = until;
        }
    }

    fn place(&self, now: Time) -> usize {
        let since = now.checked_sub(self.start).unwrap_or_default();
        ((since.as_nanos() / self.width.as_nanos()) as usize).min(LAST)
    }

    #[inline]
    fn round(&mut self, now: Time) -> &mut Round {
        let place = self.place(now);
        if place >= self.rounds.len() {
            self.rounds.resize(place + 1, Round::default());
        }
        &mut self.rounds[place]
    }

    /// Writes the rows; the flow ended at `end`.
    pub(crate) fn write(&self, (run, flow): (u32, &Name), end: Time, rows: &mut Rounds) {
        let mut arrived = 0;
        for (number, round) in (0u64..).zip(&self.rounds) {
            let begin = self.start + self.width * number;
            if begin >= end {
                break;
            }
            let until = (begin + self.width).min(end);
            let before = arrived;
            arrived = arrived.max(round.arrived);
            let [application, receiver, window, pacing, timeout] = round.waits.map(Time::as_secs_f64);
            rows.push(RoundRow {
                run,
                flow: flow.clone(),
                t_s: until.as_secs_f64(),
                length_s: (until - begin).as_secs_f64(),
                sent_bytes: round.sent,
                arrived_bytes: arrived - before,
                retransmitted_packets: round.again,
                inflight_max_bytes: self.sees_sender.then_some(round.in_flight),
                rtt_min_ms: round.rtt_min.map(Time::as_millis_f64),
                application_s: application,
                receiver_s: receiver,
                window_s: window,
                pacing_s: self.sees_sender.then_some(pacing),
                timeout_s: timeout,
            });
        }
    }
}

/// Most rounds of a flow: longer flows have longer ones.
const MOST: usize = 4000;
/// Number of the last round: packets behind the flow's end, by a clock that was set, fall into the rounds after [`MOST`].
const LAST: usize = 2 * MOST;
const LEAST: Time = Time::from_millis(50);
/// Linux's least timeout.
const TIMEOUT: Time = Time::from_millis(200);
/// A packet that an acknowledgement let go follows it within this share of the time between two of them, or within this part of the pause
/// before the packet, and within these times.
const AT_ONCE: f64 = 0.1;
const AT_ONCE_OF_PAUSE: u64 = 100;
const SOONEST: Time = Time::from_micros(20);
const LATEST: Time = Time::from_millis(1);
/// Packets nearer to each other are a train; of pacing, trains follow each other within twice their millisecond.
const TOGETHER: Time = Time::from_micros(100);
const LONGEST_TRAIN: Time = Time::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1000;

    fn sent(meter: &mut RoundMeter, ms: u64, in_flight: u64, is_pushed: bool) {
        let data = SentData {
            bytes: SEGMENT,
            is_short: false,
            is_pushed,
            in_flight: (in_flight, in_flight + u64::from(SEGMENT)),
            is_again: false,
            room: None,
        };
        meter.sent(Time::from_millis(ms), &data, SEGMENT);
    }

    fn waits(meter: &RoundMeter) -> [u64; 5] {
        let whole = meter
            .rounds
            .iter()
            .fold([Time::ZERO; 5], |sums, round| std::array::from_fn(|wait| sums[wait] + round.waits[wait]));
        whole.map(Time::as_millis)
    }

    #[test]
    fn pauses_far_behind_the_flow_s_end_are_of_the_last_round() {
        let mut meter = RoundMeter::new(Time::ZERO, Time::from_secs(1), Some(Time::from_millis(50)), true);
        sent(&mut meter, 1, 0, false);
        sent(&mut meter, 100_000_000, 0, false);
        sent(&mut meter, 200_000_000, 0, false);
        assert_eq!(meter.rounds.len(), LAST + 1);
        assert_eq!(waits(&meter).iter().sum::<u64>(), 200_000_000);
    }

    #[test]
    fn acknowledgements_that_come_together_end_a_long_pause_of_a_slow_host() {
        let mut meter = RoundMeter::new(Time::ZERO, Time::from_secs(10), Some(Time::from_millis(600)), true);
        sent(&mut meter, 100, 0, true);
        (0..80).for_each(|number| meter.answered(Time::from_micros(699_530 + 5 * number), false, u64::MAX, SEGMENT));
        sent(&mut meter, 700, 40_000, true);
        assert_eq!(waits(&meter), [0, 0, 700, 0, 0]);
    }

    #[test]
    fn a_pause_counts_for_what_ended_it() {
        let mut meter = RoundMeter::new(Time::ZERO, Time::from_secs(10), Some(Time::from_millis(100)), true);
        sent(&mut meter, 100, 0, true);
        // One acknowledgement of all that was in flight lets the next packet go; later the application writes by itself.
        meter.answered(Time::from_millis(200), false, u64::MAX, SEGMENT);
        sent(&mut meter, 200, 0, true);
        meter.answered(Time::from_millis(300), false, u64::MAX, SEGMENT);
        sent(&mut meter, 350, 0, false);
        // Packets without PSH that follow nothing are paced.
        sent(&mut meter, 370, 1000, false);
        assert_eq!(waits(&meter), [150, 0, 200, 20, 0]);
    }
}
