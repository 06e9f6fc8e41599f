//! Header prediction (Jacobson 1990) at both ends: nearly every segment of a bulk transfer is the expected one.
//!
//! An endpoint checks once that nothing unusual is under way ([`conditions`](super::conditions)), then processes expected segments on a
//! fast path until another event occurs: every other change of the endpoint forgets the prediction.

use perigee_units::Time;

use super::state::Prediction;
use super::Endpoint;
use crate::receiver::Receiver;
use crate::segment::{Flags, Header, Segment, Train};
use crate::sender::Sender;

impl Endpoint {
    /// Fast path of [`Endpoint::on_segment`] for an in-order data segment without rare options and congestion mark. Returns `false`, with
    /// no effect, for any other segment.
    #[inline(always)]
    pub fn on_next_data(&mut self, now: Time, header: &Header) -> bool {
        self.predicts(Prediction::Data) && self.take_data(now, header)
    }

    /// [`Endpoint::on_next_data`] for each segment of a train, which arrive at `times`, in order; passes the ACKs that
    /// [`Endpoint::poll_acknowledgement`] would return, and their times, to `answer`. Returns `false`, with no effect,
    /// unless all segments are predicted, and only ACKs result.
    #[inline(always)]
    pub fn on_next_train(&mut self, times: &[Time], train: Train, mut answer: impl FnMut(Time, Header)) -> bool {
        let (header, Some(last)) = (&train.first, times.last().copied()) else { return true };
        let is_steady = self.prediction == Prediction::Data
            && self.is_plain_data(header)
            && header.seq == self.peer_wire(self.receiver.next())
            && !self.has_output()
            && self.receiver.is_steady(last, header, u64::from(train.segments) * u64::from(header.len));
        if !is_steady {
            return false;
        }
        self.note_peer(header);
        for (at, header) in times.iter().zip(train.headers()) {
            self.receiver.on_next_data::<true>(*at, &header, None, || Time::MAX);
            if self.receiver.ack_due() {
                self.sender.now_ms = at.as_millis() as u32;
                let header = Header { seq: self.sender.sk.snd_nxt, ..self.next_header() };
                self.receiver.on_ack_sent();
                answer(*at, header);
            }
        }
        self.sender.set_now(last);
        true
    }

    /// Fast path of [`Endpoint::on_segment`] for any expected segment. Returns `false` as [`Endpoint::on_next_data`] does.
    #[inline(always)]
    pub fn on_expected(&mut self, now: Time, header: &Header) -> bool {
        if header.flags.0 | Flags::PSH != Flags::ACK | Flags::PSH {
            return false;
        }
        if self.prediction == Prediction::Forgotten {
            self.predict();
        }
        match self.prediction {
            Prediction::Acknowledgements => self.take_acknowledgement(now, header),
            Prediction::Data => self.take_data(now, header),
            Prediction::DataBehindGap => self.take_data_behind_gap(now, header),
            Prediction::Recovery | Prediction::Nothing | Prediction::Forgotten => false,
        }
    }

    /// Sends what follows a predicted segment, passing each header to `send`. Any other segment to send remains
    /// [pending](Endpoint::has_output).
    #[inline(always)]
    pub fn transmit_predicted(&mut self, now: Time, mut send: impl FnMut(&Header)) {
        if let Some(header) = self.poll_acknowledgement(now) {
            send(&header);
        } else {
            self.in_batch(|mut batch| batch.send(now, |train| train.headers().for_each(|header| send(&header))));
        }
    }

    /// Whether only new data may leave, in segments without rare options. This holds for most turns of a recovery, too.
    #[inline(never)]
    pub(super) fn may_send_batch(&mut self) -> bool {
        self.sender.sends_new_data_alone() && self.predicts(Prediction::Recovery)
    }

    /// The ACK due after predicted in-order data, if any.
    #[inline(always)]
    pub fn poll_acknowledgement(&mut self, now: Time) -> Option<Header> {
        if self.prediction != Prediction::Data || !self.receiver.ack_due() || self.sender.output.due {
            return None;
        }
        if now != self.sender.now {
            self.set_now(now);
        }
        let header = Header { seq: self.sender.sk.snd_nxt, ..self.next_header() };
        self.receiver.on_ack_sent();
        Some(header)
    }

    /// Writes the ACK due after predicted data behind a gap into `segment`, which must have no options; returns whether one was due.
    #[inline(always)]
    pub fn poll_duplicate_ack(&mut self, now: Time, segment: &mut Segment) -> bool {
        if self.prediction != Prediction::DataBehindGap || !self.receiver.ack_due() || self.sender.output.due {
            return false;
        }
        if now != self.sender.now {
            self.set_now(now);
        }
        segment.header = Header { seq: self.sender.sk.snd_nxt, ..self.next_header() };
        let irs = self.irs;
        self.receiver.fill_sack(segment, |position| irs.wrapping_add(position as u32));
        self.receiver.on_ack_sent();
        true
    }

    /// Writing more data keeps the prediction of a sender.
    #[inline]
    pub(super) fn after_write(&mut self) {
        if self.prediction != Prediction::Acknowledgements {
            self.prediction = Prediction::Forgotten;
        }
    }

    /// Reading keeps the prediction of a receiver, which may have to advertise its window.
    #[inline]
    pub(super) fn after_read(&mut self) {
        if !matches!(self.prediction, Prediction::Data | Prediction::DataBehindGap) {
            self.prediction = Prediction::Forgotten;
        }
    }

    /// Whether `what` is the prediction; predicts first if necessary.
    #[inline(always)]
    pub(super) fn predicts(&mut self, what: Prediction) -> bool {
        if self.prediction == Prediction::Forgotten {
            self.predict();
        }
        self.prediction == what
    }

    /// Processes an expected ACK without data; returns `false`, with no effect, for any other header.
    #[inline(always)]
    pub(super) fn take_acknowledgement(&mut self, now: Time, header: &Header) -> bool {
        if !self.is_next_acknowledgement(header) {
            return false;
        }
        if !self.sender.on_predicted_ack(now, header, header.window != self.last_peer_window) {
            return false;
        }
        self.note_peer(header);
        true
    }

    /// Whether a header is that of an ACK without data, the next of the peer in sequence.
    #[inline(always)]
    fn is_next_acknowledgement(&self, header: &Header) -> bool {
        header.flags.0 == Flags::ACK && header.len == 0 && header.seq == self.peer_wire(self.receiver.next())
    }

    /// Processes an ACK that only extends the newest SACK block; returns `false`, with no effect, for any other segment.
    pub(super) fn on_sack_advance(&mut self, segment: &Segment) -> bool {
        let is_one = self.predicts(Prediction::Recovery)
            && self.is_next_acknowledgement(segment)
            && self.sender.on_sack_advance(segment);
        if is_one {
            self.note_peer(segment);
        }
        is_one
    }

    /// Processes the next in-order data; returns `false`, with no effect, for any other header.
    #[inline(always)]
    fn take_data(&mut self, now: Time, header: &Header) -> bool {
        if !self.is_plain_data(header) || header.seq != self.peer_wire(self.receiver.next()) {
            return false;
        }
        self.sender.set_now(now);
        self.note_peer(header);
        let echo_age_us = self.echo_age_us(header);
        let sender = &self.sender;
        self.receiver.on_next_data::<false>(now, header, echo_age_us, || sender.rto());
        true
    }

    /// Processes data behind a gap that continue the newest range; returns `false`, with no effect, for any other header.
    #[inline(always)]
    fn take_data_behind_gap(&mut self, now: Time, header: &Header) -> bool {
        let newest = self.receiver.newest();
        if !self.is_plain_data(header) || header.seq != self.peer_wire(newest) {
            return false;
        }
        self.sender.set_now(now);
        self.last_peer_window = header.window;
        let echo_age_us = self.echo_age_us(header);
        let sender = &self.sender;
        self.receiver.on_data_behind_gap(now, (newest, header), echo_age_us, || sender.rto());
        true
    }

    /// Whether a header carries data and neither acknowledges new data nor updates the window.
    #[inline(always)]
    fn is_plain_data(&self, header: &Header) -> bool {
        let is_plain = header.flags.0 | Flags::PSH == Flags::ACK | Flags::PSH && header.len > 0;
        is_plain && header.ack == self.sender.sk.snd_una && header.window == self.sender.peer_window.bytes
    }

    /// Records what the next segments, sent and received, depend on.
    #[inline(always)]
    fn note_peer(&mut self, header: &Header) {
        if header.timestamps {
            self.ts_recent = header.tsval;
        }
        self.last_peer_window = header.window;
    }

    /// The header of a segment sent now, except sequence number and payload.
    #[inline(always)]
    pub(super) fn next_header(&mut self) -> Header {
        let Self { sender, receiver, irs, window_scale, ts_recent, .. } = self;
        header(sender, receiver, (*irs, *window_scale, *ts_recent))
    }
}

/// [`Endpoint::next_header`] from its parts, the last of which are initial receive sequence number, window scale and timestamp to echo.
#[inline(always)]
pub(super) fn header(
    sender: &Sender,
    receiver: &mut Receiver,
    (irs, window_scale, ts_recent): (u32, Option<u8>, u32),
) -> Header {
    let timestamps = sender.settings.timestamps;
    Header {
        seq: 0,
        ack: irs.wrapping_add(receiver.next() as u32),
        window: receiver.advertise(window_scale.unwrap_or(0)),
        tsval: if timestamps { sender.now_ms } else { 0 },
        tsecr: if timestamps { ts_recent } else { 0 },
        len: 0,
        flags: Flags(Flags::ACK),
        timestamps,
    }
}
