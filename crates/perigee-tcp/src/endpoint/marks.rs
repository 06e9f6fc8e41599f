//! Congestion marks at the receiver: the echo of RFC 3168, or the congestion control's own; and ACKs that leave before all else.

use perigee_cc::ecn;

use super::Endpoint;
use crate::segment::{Flags, Header, Segment};

impl Endpoint {
    /// Echoes congestion marks until the sender sets CWR (RFC 3168, section 6.1.3). As in Linux, the two segments after the first mark are
    /// acknowledged at once, and so is the segment with CWR, since the sender's window may be one segment. What a congestion control that
    /// needs ECN does instead is up to it, see [`Endpoint::report_mark`].
    pub(super) fn take_congestion_marks(&mut self, segment: &Segment, ce: bool) {
        if segment.flags.has(Flags::CWR) && segment.len > 0 {
            self.set_ecn_echo(false);
            self.receiver.force_ack();
        }
        if ce && !self.ecn_echo && !self.sender.ecn.on_all && self.receiver.heeds_marks() {
            self.set_ecn_echo(true);
            self.receiver.on_congestion_mark();
        }
    }

    fn set_ecn_echo(&mut self, on: bool) {
        self.ecn_echo = on;
        let others = self.sender.sk.ecn_flags & !ecn::DEMAND_CWR;
        self.sender.sk.ecn_flags = if on { others | ecn::DEMAND_CWR } else { others };
    }

    /// Data have been taken that carried a mark or not; ACKs were waiting before them or not, and `next` was expected. A congestion control
    /// that needs ECN, and a receiver that cheats, have something to do.
    #[cold]
    pub(super) fn after_arrival(&mut self, (ce, ack_waits): (bool, bool), next: u64) {
        if self.sender.ecn.on_all {
            self.report_mark(ce && self.receiver.heeds_marks(), ack_waits);
        }
        self.receiver.cheat(self.sender.now, next);
        self.claim();
    }

    /// The next false claim of a receiver that cheats leaves before all else but early ACKs.
    fn claim(&mut self) {
        if self.early_acks[0].is_some() {
            return;
        }
        if let Some(claim) = self.receiver.claim() {
            self.early_acks[0] = Some((self.peer_wire(claim), self.ecn_echo));
            self.sender.output.due = true;
        }
    }

    /// Reports data that have just been taken to a congestion control that needs ECN; `ack_waits`: data before them wait for
    /// their ACK. It decides about the echo, and whether ACKs leave at once, also one of what came before (RFC 8257, section 3.2).
    fn report_mark(&mut self, ce: bool, ack_waits: bool) {
        let next = self.peer_wire(self.receiver.next());
        let (is_due, early) = self.sender.sk.report_mark(ce, next, ack_waits);
        self.ecn_echo = self.sender.sk.ecn_flags & ecn::DEMAND_CWR != 0;
        if is_due {
            self.receiver.force_ack();
        }
        if early.is_some() {
            // The second one is of a segment that ends the wait of an aggregate, and is processed in the same turn.
            self.early_acks[usize::from(self.early_acks[0].is_some())] = early;
            self.sender.output.due = true;
        }
    }

    /// Writes the first early ACK into `segment`. As in Linux, the ACK that waited stays due.
    #[cold]
    pub(super) fn acknowledge_early(&mut self, segment: &mut Segment) -> bool {
        let [Some((ack, echo)), second] = self.early_acks else { return false };
        self.early_acks = [second, None];
        let seq = self.sender.stream.to_wire(self.sender.stream.nxt);
        let flags = Flags(if echo { Flags::ACK | Flags::ECE } else { Flags::ACK });
        *segment = Header { seq, ack, flags, ..self.next_header() }.into();
        segment.ect = self.sender.ecn.on_all;
        self.claim();
        true
    }
}
