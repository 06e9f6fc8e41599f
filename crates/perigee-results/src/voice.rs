//! Measures packet telephony: delay and jitter, packets that a playout buffer can play, and the quality of the conversation.
//!
//! Jitter is the estimate of RFC 3550 (July 2003), 6.4.1: J += (|D| - J) / 16 at each arrival, D the difference of the delays of
//! this packet and the one that arrived before it. The playout buffer delays the first packet of a talk spurt that arrives; the
//! others are played at the times at which they were sent relative to it, and a packet that arrives later counts as lost.

use perigee_units::{encode_struct, Time};

use crate::e_model::{opinion, rating, Codec};
use crate::{FlowId, Tables, VoiceRow};

/// The stream of packets of a telephone, and the settings of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Talk {
    /// Interval of packets in a talk spurt, and length of the speech in a packet.
    pub interval: Time,
    /// Delay of the first packet of a talk spurt in the playout buffer.
    pub playout: Time,
    /// Whether the receiver conceals losses (G.711, Appendix I).
    pub concealment: bool,
    /// Packets sent within this time after the start of the flow are not counted.
    pub warmup: Time,
}

/// The measurements of one direction of a conversation.
#[derive(Clone, Debug)]
pub struct VoiceMeter {
    talk: Talk,
    /// Packets count from this instant on.
    from: Time,
    sent: u64,
    arrived: u64,
    late: u64,
    delay_sum_ns: u128,
    delay_max: Time,
    jitter: Jitter,
    spurt: Option<Spurt>,
    /// Sum over arrived packets of the times from sending to playing, also of those too late to be played.
    playout_sum_ns: u128,
}

/// The talk spurt being played.
#[derive(Clone, Copy, Debug)]
struct Spurt {
    /// The sending time of its first packet to arrive, and its number.
    sent: Time,
    number: u32,
    /// Time from sending to playing of its packets.
    delay: Time,
}

/// The interarrival jitter, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jitter {
    before: Option<Time>,
    estimate_ns: f64,
    sum_ns: f64,
    max_ns: f64,
    count: u64,
}

impl VoiceMeter {
    /// The measurements of a flow that begins at `start`.
    pub fn new(start: Time, talk: Talk) -> Self {
        Self {
            talk,
            from: start + talk.warmup,
            sent: 0,
            arrived: 0,
            late: 0,
            delay_sum_ns: 0,
            delay_max: Time::ZERO,
            jitter: Jitter::default(),
            spurt: None,
            playout_sum_ns: 0,
        }
    }

    /// Counts a packet that is sent at `at`.
    pub fn send(&mut self, at: Time) {
        self.sent += u64::from(at >= self.from);
    }

    /// Packet `number` arrives at `now`, `delay` after it was sent.
    pub fn deliver(&mut self, now: Time, number: u32, delay: Time) {
        let sent = now - delay;
        if sent < self.from {
            return;
        }
        let playout = self.playout(sent, number, delay);
        self.arrived += 1;
        self.late += u64::from(delay > playout);
        self.playout_sum_ns += u128::from(playout.as_nanos());
        self.delay_sum_ns += u128::from(delay.as_nanos());
        self.delay_max = self.delay_max.max(delay);
        self.jitter.add(delay);
    }

    /// Time from sending to playing of a packet.
    fn playout(&mut self, sent: Time, number: u32, delay: Time) -> Time {
        let begins =
            self.spurt.is_none_or(|spurt| number > spurt.number && !spurt.has(sent, number, self.talk.interval));
        if begins {
            self.spurt = Some(Spurt { sent, number, delay: delay + self.talk.playout });
        }
        self.spurt.map_or(delay, |spurt| spurt.delay)
    }

    /// Mean delay from mouth to ear, ms: packetization, network and playout buffer; `None` without arrivals.
    fn mouth_to_ear_ms(&self) -> Option<f64> {
        self.mean_ms(self.playout_sum_ns).map(|playout| playout + self.talk.interval.as_millis_f64())
    }

    fn mean_ms(&self, sum_ns: u128) -> Option<f64> {
        (self.arrived > 0).then(|| sum_ns as f64 / self.arrived as f64 / 1e6)
    }

    /// The rating by the E-model; `None` without arrivals.
    fn rating(&self, lost_percent: f64) -> Option<f64> {
        let codec = if self.talk.concealment { Codec::G711_CONCEALED } else { Codec::G711 };
        self.mouth_to_ear_ms().map(|delay| rating(delay, lost_percent, codec))
    }

    /// Adds the row of the flow.
    pub fn write(&self, id: FlowId<'_>, tables: &mut Tables) {
        // In an emulated run a packet may arrive before it is counted as sent.
        let sent = self.sent.max(self.arrived);
        let unplayed = sent - self.arrived + self.late;
        let lost_percent = if sent > 0 { 100.0 * unplayed as f64 / sent as f64 } else { 0.0 };
        let rating = self.rating(lost_percent);
        tables.voice.push(VoiceRow {
            run: id.run,
            flow: id.flow.clone(),
            sent_packets: sent,
            lost_packets: sent - self.arrived,
            late_packets: self.late,
            unplayed_percent: (sent > 0).then_some(lost_percent),
            delay_mean_ms: self.mean_ms(self.delay_sum_ns),
            delay_max_ms: (self.arrived > 0).then(|| self.delay_max.as_millis_f64()),
            jitter_mean_ms: self.jitter.mean_ms(),
            jitter_max_ms: self.jitter.max_ms(),
            mouth_to_ear_ms: self.mouth_to_ear_ms(),
            r_factor: rating,
            mos: rating.map(opinion),
        });
    }
}

impl Spurt {
    /// Whether a packet belongs to this spurt: sent as long after the first one as their numbers imply.
    fn has(&self, sent: Time, number: u32, interval: Time) -> bool {
        let due = self.sent + interval * u64::from(number - self.number);
        sent.as_nanos().abs_diff(due.as_nanos()) < interval.as_nanos() / 2
    }
}

impl Jitter {
    /// J(i) = J(i-1) + (|D(i-1, i)| - J(i-1)) / 16
    pub(crate) fn add(&mut self, delay: Time) {
        let Some(before) = self.before.replace(delay) else { return };
        let difference = delay.as_nanos().abs_diff(before.as_nanos()) as f64;
        self.estimate_ns += (difference - self.estimate_ns) / 16.0;
        self.sum_ns += self.estimate_ns;
        self.max_ns = self.max_ns.max(self.estimate_ns);
        self.count += 1;
    }

    /// Mean of the estimates; `None` below two packets.
    pub(crate) fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns / self.count as f64 / 1e6)
    }

    /// Largest estimate; `None` below two packets.
    pub(crate) fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max_ns / 1e6)
    }
}

encode_struct!(Talk { interval, playout, concealment, warmup });

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    fn talk() -> Talk {
        Talk { interval: MS(20), playout: MS(40), concealment: true, warmup: Time::ZERO }
    }

    /// The row of packets with these instants of sending and delays, ms; without a delay one is lost.
    fn row(talk: Talk, packets: &[(u64, Option<u64>)]) -> VoiceRow {
        let mut meter = VoiceMeter::new(Time::ZERO, talk);
        for (number, (sent, delay)) in (0..).zip(packets) {
            meter.send(MS(*sent));
            if let Some(delay) = delay {
                meter.deliver(MS(sent + delay), number, MS(*delay));
            }
        }
        let mut tables = Tables::default();
        let name = "talk".into();
        meter.write(FlowId { run: 3, flow: &name, leg: None }, &mut tables);
        let all = &tables.voice;
        VoiceRow {
            run: all.run[0],
            flow: all.flow[0].clone(),
            sent_packets: all.sent_packets[0],
            lost_packets: all.lost_packets[0],
            late_packets: all.late_packets[0],
            unplayed_percent: all.unplayed_percent[0],
            delay_mean_ms: all.delay_mean_ms[0],
            delay_max_ms: all.delay_max_ms[0],
            jitter_mean_ms: all.jitter_mean_ms[0],
            jitter_max_ms: all.jitter_max_ms[0],
            mouth_to_ear_ms: all.mouth_to_ear_ms[0],
            r_factor: all.r_factor[0],
            mos: all.mos[0],
        }
    }

    #[test]
    fn jitter_is_the_estimate_of_rfc_3550() {
        // Differences of 16, 0 and 32 ms: J = 1, then 0.9375, then 0.9375 + (32 - 0.9375) / 16 = 2.87890625 ms.
        let row = row(talk(), &[(0, Some(100)), (20, Some(116)), (40, Some(116)), (60, Some(84))]);
        assert_eq!(row.jitter_max_ms, Some(2.878_906_25));
        assert_eq!(row.jitter_mean_ms, Some((1.0 + 0.9375 + 2.878_906_25) / 3.0));
        assert_eq!((row.delay_mean_ms, row.delay_max_ms), (Some(104.0), Some(116.0)));
    }

    #[test]
    fn a_packet_that_comes_after_it_should_be_played_is_late() {
        // The first packet is played 140 ms after it was sent, and so are the others.
        let row = row(talk(), &[(0, Some(100)), (20, Some(140)), (40, Some(141)), (60, None)]);
        assert_eq!((row.sent_packets, row.lost_packets, row.late_packets), (4, 1, 1));
        assert_eq!((row.unplayed_percent, row.mouth_to_ear_ms), (Some(50.0), Some(160.0)));
    }

    #[test]
    fn each_talk_spurt_is_played_from_its_own_first_packet_on() {
        // The second spurt begins 35 ms late; its first packet was lost on the way.
        let row = row(talk(), &[(0, Some(100)), (20, Some(100)), (500, None), (520, Some(135)), (540, Some(175))]);
        assert_eq!((row.lost_packets, row.late_packets), (1, 0));
        assert_eq!(row.mouth_to_ear_ms, Some((160.0 * 2.0 + 195.0 * 2.0) / 4.0));
    }

    #[test]
    fn packets_of_the_warm_up_are_not_counted() {
        let talk = Talk { warmup: MS(40), ..talk() };
        let row = row(talk, &[(0, Some(500)), (20, None), (40, Some(100)), (60, Some(100))]);
        assert_eq!((row.sent_packets, row.lost_packets, row.delay_mean_ms), (2, 0, Some(100.0)));
    }

    #[test]
    fn a_conversation_that_nobody_hears_has_no_rating() {
        let row = row(talk(), &[(0, None), (20, None)]);
        assert_eq!((row.unplayed_percent, row.r_factor, row.mos), (Some(100.0), None, None));
    }
}
