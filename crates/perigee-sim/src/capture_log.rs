//! A capture at the sender of a flow's data.

use perigee_results::{CaptureRules, FlowRow, SenderCapture};
use perigee_tcp::{Endpoint, Flags, Header};
use perigee_units::{nearest_position, Time};

pub(crate) struct CaptureLog {
    capture: SenderCapture,
    /// Sequence number of the start of the stream.
    origin: u32,
    /// End of the data sent, from the start of the stream.
    sent_until: u64,
}

impl CaptureLog {
    pub(crate) fn new(rules: CaptureRules, host: &Endpoint) -> Self {
        Self { capture: SenderCapture::new(rules, host.has_offload()), origin: 0, sent_until: 0 }
    }

    /// Notes `segments` consecutive segments of one size, which leave at `now`; `first` is the first one's header.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time, first: &Header, segments: u32) {
        if first.flags.has(Flags::SYN) {
            self.origin = first.seq.wrapping_add(1);
        }
        if first.len > 0 {
            let (position, bytes) = (self.position(first.seq), u64::from(first.len));
            self.sent_until = self.sent_until.max(position + u64::from(segments) * bytes);
            self.capture.sent(now, position, bytes, segments);
        }
    }

    #[inline]
    pub(crate) fn acknowledged(&mut self, now: Time, header: &Header) {
        if header.flags.has(Flags::ACK) && !header.flags.has(Flags::SYN) {
            self.capture.acknowledged(now, self.position(header.ack));
        }
    }

    pub(crate) fn fill(&mut self, row: &mut FlowRow) {
        self.capture.fill(row);
    }

    /// The stream position of a sequence number: the one nearest to the data sent.
    fn position(&self, sequence: u32) -> u64 {
        nearest_position(sequence.wrapping_sub(self.origin), self.sent_until).unwrap_or(0)
    }
}
