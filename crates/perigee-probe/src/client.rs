//! The client of one probe: one rate, one direction.

use perigee_units::{Rate, Time};
use serde::Serialize;
use thiserror::Error;

use crate::code::{Token, CODE};
use crate::protocol::{self, Direction, Message, Refusal, Request, Sent, FILLED_GET, FILLED_HELLO, FILLED_STOP, PART};
use crate::receiver::{Receiver, Report, MOST_BLOCKS};
use crate::sender::ProbeSender;

/// Parameters of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSpec {
    /// Direction of the data.
    pub direction: Direction,
    /// Rate, IP and UDP headers included.
    pub rate: Rate,
    /// Bytes of a packet, headers included.
    pub packet: u16,
    /// Bytes of its headers: 28 with IPv4, 48 with IPv6.
    pub headers: u8,
    /// Duration of the data.
    pub time: Time,
    /// Duration of a block of the report; longer where that would give too many blocks.
    pub block: Time,
}

impl ProbeSpec {
    fn request(&self) -> Request {
        let bits = u128::from(self.packet) * 8;
        let in_time = |time: Time| {
            u64::try_from(u128::from(time.as_nanos()) * u128::from(self.rate.as_bps()) / bits / 1_000_000_000)
                .unwrap_or(u64::MAX)
        };
        let packets = in_time(self.time).max(2);
        let per_block = in_time(self.block).max(packets.div_ceil(MOST_BLOCKS)).max(1);
        Request {
            direction: self.direction,
            packet: self.packet,
            headers: self.headers,
            rate_bps: self.rate.as_bps(),
            packets,
            per_block: u32::try_from(per_block).unwrap_or(u32::MAX),
        }
    }
}

/// Result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The sender's counts.
    pub sent: Sent,
    /// The receiver's report.
    pub report: Report,
    /// From the first question to its answer, before the path was loaded; longer than a round trip if the question was
    /// lost.
    pub rtt: Time,
}

/// Why a probe has no result.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The server never answered.
    #[error("no answer came")]
    NoAnswer,
    /// The server refused the probe.
    #[error("the server refuses: {0:?}")]
    Refused(Refusal),
    /// The server fell silent during the probe.
    #[error("the server fell silent")]
    FellSilent,
    /// The server ended the probe before all packets were sent.
    #[error("the server stopped: {0:?}")]
    Ended(Refusal),
    /// The server's report contradicts itself.
    #[error("the server's report is damaged")]
    Damaged,
    /// Data packets exceed the MTU of the path.
    #[error("the packet is too large for the network")]
    TooLarge,
}

/// Client side of one probe, without socket and clock.
#[derive(Debug)]
pub struct Client {
    token: Token,
    name: u64,
    asked: Request,
    stage: Stage,
    rtt: Time,
    /// Arrival of the last datagram from the server, or the start.
    heard: Time,
    /// When the next question is due.
    again: Time,
    ended: Option<Result<Outcome, Failure>>,
}

#[derive(Debug)]
enum Stage {
    Hello { asked_at: Time },
    Start { challenge: [u8; CODE] },
    Sending(ProbeSender),
    Receiving { receiver: Box<Receiver>, kept: u32, until: Option<Time>, ends: Time },
    Stopping { sent: Option<Sent>, receiver: Option<Box<Receiver>> },
    Fetching { sent: Sent, parts: Vec<Option<Vec<u8>>>, asked: usize, patient_until: Time },
}

impl Client {
    /// Starts a probe at `now`; `name` is random.
    pub fn new(now: Time, name: u64, token: Token, spec: &ProbeSpec) -> Self {
        Self {
            token,
            name,
            asked: spec.request(),
            stage: Stage::Hello { asked_at: now },
            rtt: Time::ZERO,
            heard: now,
            again: now,
            ended: None,
        }
    }

    /// The result, once the probe has ended.
    pub fn outcome(&self) -> Option<&Result<Outcome, Failure>> {
        self.ended.as_ref()
    }

    /// Progress from 0 to 1: packets sent or received over all packets.
    pub fn share(&self) -> f64 {
        let done = match &self.stage {
            Stage::Hello { .. } | Stage::Start { .. } => 0,
            Stage::Sending(sender) => sender.sent().packets,
            Stage::Receiving { receiver, .. } => receiver.received(),
            Stage::Stopping { .. } | Stage::Fetching { .. } => self.asked.packets,
        };
        done as f64 / self.asked.packets as f64
    }

    /// Handles a datagram from the server.
    pub fn receive(&mut self, now: Time, datagram: &[u8]) {
        let Some((name, message)) = protocol::read(datagram, &self.token) else { return };
        if name != self.name || self.ended.is_some() {
            return;
        }
        let before = self.heard;
        self.heard = now;
        match (&mut self.stage, message) {
            (Stage::Hello { asked_at }, Message::Challenge(challenge)) => {
                self.rtt = now - *asked_at;
                self.turn_to(now, Stage::Start { challenge });
            }
            (Stage::Start { .. }, Message::Answer(None)) => self.begin(now),
            // An interrupted session of this client expires by itself.
            (Stage::Start { .. }, Message::Answer(Some(Refusal::AnotherSession))) => self.heard = before,
            (Stage::Start { .. }, Message::Answer(Some(refusal))) => self.ended = Some(Err(Failure::Refused(refusal))),
            // Data that overtook the answer also says that the probe has started.
            (Stage::Start { .. }, Message::Data { .. }) if self.asked.direction == Direction::Down => {
                self.begin(now);
                self.receive(now, datagram);
            }
            (Stage::Receiving { receiver, until, ends, .. }, Message::Data { number, sent_ns }) => {
                receiver.on_packet(now, number, sent_ns);
                let left = *ends - now;
                // Wait for reordered packets, and for a path that is down for a while before the end.
                *until = Some(now + if receiver.has_last() { AFTERWARDS } else { left.clamp(GAP, LONG_GAP) });
            }
            (Stage::Stopping { receiver: Some(receiver), .. }, Message::Data { number, sent_ns }) => {
                receiver.on_packet(now, number, sent_ns);
            }
            (Stage::Stopping { sent, receiver }, Message::Stopped { ended, sent: told, report }) => {
                let (sent, receiver) = (sent.unwrap_or(told), receiver.take());
                self.stopped(now, ended, sent, receiver, report);
            }
            (Stage::Fetching { parts, asked, patient_until, .. }, Message::Part(place, bytes)) => {
                let at = place as usize / PART;
                if let Some(part @ None) = parts.get_mut(at) {
                    *part = Some(bytes.to_vec());
                    *asked = asked.saturating_sub(1);
                    *patient_until = now + self.rtt + AGAIN;
                    self.again = self.again.min(now);
                    self.assemble();
                }
            }
            _ => {}
        }
    }

    /// Writes the next datagram that is due, and returns its length.
    pub fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        if self.ended.is_some() {
            return None;
        }
        if now - self.heard > self.patience() {
            let unheard = matches!(self.stage, Stage::Hello { .. } | Stage::Start { .. });
            self.ended = Some(Err(if unheard { Failure::NoAnswer } else { Failure::FellSilent }));
            return None;
        }
        match &mut self.stage {
            Stage::Sending(sender) => {
                if sender.wake().is_some() {
                    return sender.transmit(now, &self.token, out);
                }
                let sent = Some(sender.sent());
                self.turn_to(now + AFTERWARDS, Stage::Stopping { sent, receiver: None });
            }
            Stage::Receiving { until: Some(until), .. } if now >= *until => {
                let hello = Stage::Hello { asked_at: now };
                if let Stage::Receiving { receiver, .. } = std::mem::replace(&mut self.stage, hello) {
                    self.turn_to(now, Stage::Stopping { sent: None, receiver: Some(receiver) });
                }
            }
            _ => {}
        }
        if now < self.again {
            return None;
        }
        let (message, fill, again) = match &mut self.stage {
            Stage::Hello { .. } => (Message::Hello, FILLED_HELLO, AGAIN),
            Stage::Start { challenge } => (Message::Start(*challenge, self.asked), 0, AGAIN),
            Stage::Sending(_) => return None,
            Stage::Receiving { kept, .. } => {
                *kept += 1;
                (Message::KeepAlive(*kept), 0, KEEP_ALIVE)
            }
            Stage::Stopping { sent, .. } => {
                let sent = sent.map_or(self.asked.packets, |sent| sent.packets);
                (Message::Stop { sent }, FILLED_STOP, AGAIN)
            }
            Stage::Fetching { parts, asked, patient_until, .. } => {
                if now >= *patient_until {
                    // Ask again for the missing parts.
                    (*asked, *patient_until) = (0, now + self.rtt + AGAIN);
                }
                let mut missing = parts.iter().enumerate().filter(|(_, part)| part.is_none()).map(|(at, _)| at);
                let Some(place) = missing.nth(*asked).filter(|_| *asked < AT_A_TIME) else {
                    self.again = *patient_until;
                    return None;
                };
                *asked += 1;
                (Message::Get((place * PART) as u32), FILLED_GET, Time::ZERO)
            }
        };
        self.again = now + again;
        Some(message.write(self.name, &self.token, fill, out))
    }

    /// When [`Client::transmit`] has a datagram next.
    pub fn wake(&self) -> Time {
        match &self.stage {
            Stage::Sending(sender) => sender.wake().unwrap_or(self.again),
            Stage::Receiving { until: Some(until), .. } => self.again.min(*until),
            _ => self.again,
        }
    }

    /// The socket did not accept the last datagram: the send queue is full, or the datagram is `too_large`.
    pub fn refused(&mut self, too_large: bool) {
        if too_large {
            self.ended = Some(Err(Failure::TooLarge));
        } else if let Stage::Sending(sender) = &mut self.stage {
            sender.refused();
        }
    }

    fn turn_to(&mut self, again: Time, stage: Stage) {
        (self.stage, self.again) = (stage, again);
    }

    fn begin(&mut self, now: Time) {
        let stage = match self.asked.direction {
            Direction::Up => Stage::Sending(ProbeSender::new(self.name, self.asked, now)),
            Direction::Down => {
                let receiver = Box::new(Receiver::new(self.asked));
                Stage::Receiving { receiver, kept: 0, until: None, ends: now + self.asked.time() }
            }
        };
        self.turn_to(now, stage);
    }

    fn stopped(&mut self, now: Time, ended: Option<Refusal>, sent: Sent, receiver: Option<Box<Receiver>>, report: u32) {
        if let Some(reason) = ended {
            self.ended = Some(Err(Failure::Ended(reason)));
        } else if let Some(receiver) = receiver {
            let report = receiver.finish(sent.packets);
            self.ended = Some(Ok(Outcome { sent, report, rtt: self.rtt }));
        } else if report > MOST_REPORT {
            self.ended = Some(Err(Failure::Damaged));
        } else {
            let parts = vec![None; (report as usize).div_ceil(PART)];
            self.turn_to(now, Stage::Fetching { sent, parts, asked: 0, patient_until: Time::ZERO });
            self.assemble();
        }
    }

    /// Ends the probe once all parts of the report have arrived.
    fn assemble(&mut self) {
        let Stage::Fetching { sent, parts, .. } = &self.stage else { return };
        let Some(whole) = parts.iter().cloned().collect::<Option<Vec<_>>>() else { return };
        let report = Report::from_bytes(&whole.concat());
        let outcome = report.map(|report| Outcome { sent: *sent, report, rtt: self.rtt });
        self.ended = Some(outcome.ok_or(Failure::Damaged));
    }

    fn patience(&self) -> Time {
        match self.stage {
            Stage::Hello { .. } | Stage::Start { .. } => UNHEARD,
            _ => SILENCE,
        }
    }
}

/// Retransmission interval of a question.
const AGAIN: Time = Time::from_secs(1);
/// Interval of keep-alives.
const KEEP_ALIVE: Time = Time::from_millis(200);
/// Silence from the start after which the client gives up.
const UNHEARD: Time = Time::from_secs(12);
/// Silence during the probe after which the client gives up.
const SILENCE: Time = Time::from_secs(15);
/// Wait for packets that the last one overtook.
const AFTERWARDS: Time = Time::from_millis(500);
/// Time without data, after the scheduled end, before the client asks to stop.
const GAP: Time = Time::from_secs(2);
/// The longest silence before the scheduled end.
const LONG_GAP: Time = Time::from_secs(10);
/// Requests for parts of the report in flight.
const AT_A_TIME: usize = 32;
/// Largest report, bytes.
const MOST_REPORT: u32 = 1 << 20;
