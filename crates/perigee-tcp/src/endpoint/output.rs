//! Output of an endpoint: the segment that leaves next, with the fields of both halves.

use perigee_units::Time;

use super::state::{Prediction, State};
use super::Endpoint;
use crate::segment::{Flags, Header, Segment};

impl Endpoint {
    /// Whether [`Endpoint::poll_transmit`] may return a segment.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.sender.output.due || self.receiver.ack_due()
    }

    /// The next segment to send. Call until it returns `None`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        let mut segment = Segment::default();
        self.transmit_into(now, &mut segment).then_some(segment)
    }

    /// [`Endpoint::poll_transmit`] into a segment that the driver provides; returns whether it wrote one.
    #[inline(always)]
    pub fn transmit_into(&mut self, now: Time, segment: &mut Segment) -> bool {
        if !self.has_output() {
            return false;
        }
        if now != self.sender.now {
            self.set_now(now);
        }
        // New data alone leaves while ACKs are predicted.
        if self.prediction != Prediction::Acknowledgements {
            self.prediction = Prediction::Forgotten;
        }
        if self.state != State::Established {
            return self.poll_unestablished(segment);
        }
        self.poll_established(segment)
    }

    #[inline(always)]
    fn poll_established(&mut self, segment: &mut Segment) -> bool {
        if self.early_acks[0].is_some() {
            return self.acknowledge_early(segment);
        }
        if !self.sender.poll(segment) {
            if !self.receiver.ack_due() {
                return false;
            }
            let seq = self.sender.stream.to_wire(self.sender.stream.nxt);
            *segment = Header { seq, flags: Flags(Flags::ACK), ..Header::default() }.into();
        }
        self.finish(segment);
        true
    }

    /// Out of line: output usually follows an event at the same instant.
    #[cold]
    pub(super) fn set_now(&mut self, now: Time) {
        self.sender.set_now(now);
    }

    #[inline(never)]
    fn poll_unestablished(&mut self, segment: &mut Segment) -> bool {
        match self.state {
            State::SynSent | State::SynReceived => {
                // Only the SYN may leave before the handshake completes.
                if self.sender.stream.nxt > 0 && self.sender.output.forced.is_none() {
                    if self.receiver.ack_due() && self.state == State::SynReceived {
                        self.receiver.on_ack_sent();
                        self.sender.output.forced = Some(0);
                    } else {
                        return false;
                    }
                }
                self.sender.output.due = true;
                if !self.sender.poll(segment) {
                    return false;
                }
                self.sender.output.due = false;
                self.finish(segment);
                true
            }
            _ => {
                self.sender.output.due = false;
                self.reset.take().map(|reset| *segment = reset).is_some()
            }
        }
    }

    /// Fills in the fields that the receiving half provides: acknowledgement, window, timestamps, SACK.
    #[inline(always)]
    fn finish(&mut self, segment: &mut Segment) {
        segment.timestamps = self.sender.settings.timestamps;
        if segment.timestamps {
            segment.tsval = self.sender.now_ms;
            segment.tsecr = self.ts_recent;
        }
        if segment.flags.has(Flags::SYN) {
            return self.finish_request(segment);
        }
        segment.ack = self.peer_wire(self.receiver.next());
        segment.window = self.receiver.advertise(self.window_scale.unwrap_or(0));
        let irs = self.irs;
        self.receiver.fill_sack(segment, |position| irs.wrapping_add(position as u32));
        if self.sender.ecn.on {
            if self.ecn_echo {
                segment.flags.0 |= Flags::ECE;
            }
            if segment.ect && std::mem::take(&mut self.sender.ecn.reduced) {
                segment.flags.0 |= Flags::CWR;
            }
            segment.ect |= self.sender.ecn.on_all;
        }
        if segment.len > 0 {
            self.receiver.on_data_sent(self.sender.now);
        }
        self.receiver.on_ack_sent();
    }

    /// Fills in the fields of a SYN.
    #[cold]
    fn finish_request(&mut self, segment: &mut Segment) {
        segment.mss = self.choice.config.mss;
        segment.window_scale = self.window_scale;
        segment.sack_permitted = self.sender.settings.sack;
        segment.window = self.receiver.initial_window();
        if self.state == State::SynReceived {
            segment.flags.0 |= if self.sender.ecn.on { Flags::ACK | Flags::ECE } else { Flags::ACK };
            segment.ect = self.sender.ecn.on_all;
            segment.ack = self.irs.wrapping_add(1);
        } else if self.asks_for_ecn() {
            segment.ect = self.sender.sk.needs_ecn();
            // A middlebox may have dropped the SYN because it asked: ask once (RFC 3168, section 6.1.1.1; `tcp_ecn_fallback`).
            if self.sender.sk.total_retrans == 0 {
                segment.flags.0 |= Flags::ECE | Flags::CWR;
            }
        }
    }
}
