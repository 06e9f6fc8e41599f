//! Packets at a constant rate. Send times follow from the start and the number alone, so nothing drifts.

use perigee_units::Time;

use crate::code::Token;
use crate::protocol::{Message, Request, Sent, DATA_HEAD};

/// Sends packets at a constant rate.
///
/// A late packet does not delay the following ones, but the sender catches up at no more than twice the rate: a burst
/// would measure the link's queue instead of its rate. Lateness above 50 ms shifts the schedule.
#[derive(Debug)]
pub struct ProbeSender {
    session: u64,
    asked: Request,
    start: Time,
    slipped: Time,
    next: u64,
    /// Earliest send time of the next packet at twice the rate.
    allowed: Time,
    sent: Sent,
    filling: Vec<u8>,
}

impl ProbeSender {
    pub(crate) fn new(session: u64, asked: Request, start: Time) -> Self {
        Self {
            session,
            asked,
            start,
            slipped: Time::ZERO,
            next: 0,
            allowed: start,
            sent: Sent::default(),
            filling: filling(session),
        }
    }

    /// When the next packet is due; `None` after the last.
    pub fn wake(&self) -> Option<Time> {
        (self.next < self.asked.packets).then(|| self.due().max(self.allowed))
    }

    /// Writes the next packet if it is due.
    pub(crate) fn transmit(&mut self, now: Time, token: &Token, out: &mut [u8]) -> Option<usize> {
        if now < self.wake()? {
            return None;
        }
        let late = now - self.due();
        self.allowed = self.allowed.max(now - TOGETHER) + Time::from_nanos(self.instant(1).as_nanos() / 2);
        self.sent.late_max_ns = self.sent.late_max_ns.max(late.as_nanos());
        if late > CATCH_UP {
            self.slipped += late;
            self.sent.slips += 1;
            self.sent.slipped_ns += late.as_nanos();
        }
        let size = usize::from(self.asked.packet).saturating_sub(usize::from(self.asked.headers)).max(DATA_HEAD);
        Message::Data { number: self.next, sent_ns: now.as_nanos() }.write(self.session, token, DATA_HEAD, out);
        out[DATA_HEAD..size].copy_from_slice(&self.filling[..size - DATA_HEAD]);
        self.next += 1;
        if self.sent.packets == 0 {
            self.sent.first_ns = now.as_nanos();
        }
        self.sent.packets += 1;
        self.sent.last_ns = now.as_nanos();
        Some(size)
    }

    /// The socket did not accept the last packet: the next one uses its number.
    pub(crate) fn refused(&mut self) {
        self.slipped += self.instant(1);
        self.next -= 1;
        self.sent.packets -= 1;
        self.sent.refused += 1;
    }

    /// The counts so far.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    fn due(&self) -> Time {
        self.start + self.slipped + self.instant(self.next)
    }

    /// t(n) = n * packet * 8 / rate, rounded down.
    fn instant(&self, number: u64) -> Time {
        let bit_ns = u128::from(number) * u128::from(self.asked.packet) * 8_000_000_000;
        Time::from_nanos(u64::try_from(bit_ns / u128::from(self.asked.rate_bps.max(1))).unwrap_or(u64::MAX))
    }
}

/// Incompressible padding: a link that compresses must not carry it faster.
fn filling(session: u64) -> Vec<u8> {
    let mut stream = perigee_units::Stream::new(session, "probe/filling");
    (0..crate::protocol::MOST_BYTES / 8).flat_map(|_| stream.next_u64().to_be_bytes()).collect()
}

/// Lateness above which the schedule shifts.
const CATCH_UP: Time = Time::from_millis(50);
/// Packets due within this time may be sent together, since a thread cannot wake more precisely.
const TOGETHER: Time = Time::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Direction;

    fn sender(rate_bps: u64) -> ProbeSender {
        let asked =
            Request { direction: Direction::Up, packet: 1500, headers: 28, rate_bps, packets: 1000, per_block: 1 };
        ProbeSender::new(1, asked, Time::from_secs(5))
    }

    #[test]
    fn the_last_instant_is_that_of_the_rate_whatever_the_division_leaves() {
        let mut sender = sender(7_000_001);
        let (token, mut out) = (Token::new(b"t"), [0; 2000]);
        while let Some(due) = sender.wake() {
            assert_eq!(sender.transmit(Time::from_nanos(due.as_nanos() - 1), &token, &mut out), None);
            assert_eq!(sender.transmit(due, &token, &mut out), Some(1472));
        }
        let sent = sender.sent();
        let exact = 999.0 * 12_000.0 / 7_000_001.0 * 1e9;
        assert!(((sent.last_ns - sent.first_ns) as f64 - exact).abs() < 1.0);
        assert_eq!((sent.packets, sent.slips, sent.refused), (1000, 0, 0));
    }

    #[test]
    fn a_sender_that_was_held_up_makes_up_for_it_at_twice_the_rate() {
        let mut sender = sender(12_000_000);
        let (token, mut out) = (Token::new(b"t"), [0; 2000]);
        let start = Time::from_secs(5) + Time::from_millis(20);
        // Twenty-one packets are due, one per millisecond, and the sender is polled every tenth of a millisecond.
        let mut sent = Vec::new();
        for tick in 0..300 {
            let now = start + Time::from_micros(100 * tick);
            if sender.transmit(now, &token, &mut out).is_some() {
                sent.push(tick);
            }
        }
        assert_eq!(sent[..4], [0, 4, 9, 14]);
        // It has caught up at 20 ms with 41 packets, and sends one per millisecond from there.
        assert_eq!(sent.iter().filter(|&&tick| tick <= 200).count(), 41);
        assert_eq!(sent[41..], [210, 220, 230, 240, 250, 260, 270, 280, 290]);
        assert_eq!((sender.sent().slips, sender.sent().late_max_ns), (0, 20_000_000));
    }

    #[test]
    fn what_a_machine_slept_is_not_made_up_for() {
        let mut sender = sender(12_000_000);
        let (token, mut out) = (Token::new(b"t"), [0; 2000]);
        let now = Time::from_secs(5) + Time::from_millis(500);
        assert!(sender.transmit(now, &token, &mut out).is_some());
        assert_eq!((sender.sent().slips, sender.sent().slipped_ns), (1, 500_000_000));
        assert_eq!(sender.wake(), Some(now + Time::from_millis(1)));
    }

    #[test]
    fn a_packet_that_the_network_refuses_is_sent_at_the_next_instant() {
        let mut sender = sender(12_000_000);
        let (token, mut out) = (Token::new(b"t"), [0; 2000]);
        sender.transmit(Time::from_secs(5), &token, &mut out);
        sender.refused();
        assert_eq!(sender.wake(), Some(Time::from_secs(5) + Time::from_millis(1)));
        assert_eq!((sender.sent().packets, sender.sent().refused), (0, 1));
    }
}
