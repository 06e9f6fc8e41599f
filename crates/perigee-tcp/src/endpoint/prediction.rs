//! Header prediction (Jacobson 1990): nearly every segment of a bulk transfer is the one that was to be expected, at either end.
//!
//! An endpoint finds out once that nothing unusual is under way, and takes predicted segments by steps of their own until
//! something else happens to it. What that may be is not listed: whatever changes the endpoint in another way forgets the
//! prediction.

use perigee_units::Time;

use super::state::{Prediction, State};
use super::Endpoint;
use crate::segment::{Flags, Header, Segment};

impl Endpoint {
    /// Fast path of [`Endpoint::on_segment`] for an in-order data segment without rare options and congestion mark. `false`: it is another
    /// one, and has still to be taken.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub fn on_next_data(&mut self, now: Time, header: &Header) -> bool {
        self.predicts(Prediction::Data) && self.take_data(now, header)
    }

    /// Fast path of [`Endpoint::on_segment`] for the header of any segment that was to be expected. `false` as for [`Endpoint::on_next_data`].
    #[inline(never)]
    pub fn on_expected(&mut self, now: Time, header: &Header) -> bool {
        if self.prediction == Prediction::Forgotten {
            self.predict();
        }
        match self.prediction {
            Prediction::Acknowledgements => self.take_acknowledgement(now, header),
            Prediction::Data => self.take_data(now, header),
            Prediction::FurtherData => self.take_further_data(now, header),
            Prediction::Repairs | Prediction::Nothing | Prediction::Forgotten => false,
        }
    }

    /// Sends what follows a predicted segment, and gives each header to `send`. Whatever else has to leave, the endpoint still
    /// [has](Endpoint::has_output).
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub fn transmit_predicted(&mut self, now: Time, mut send: impl FnMut(&Header)) {
        if let Some(header) = self.poll_acknowledgement(now) {
            send(&header);
        } else {
            self.in_batch(|mut batch| batch.send(now, send));
        }
    }

    /// Whether new data are all that may leave, and the segments of them say nothing else: so it is in most turns of a recovery too.
    #[inline(never)]
    pub(super) fn may_send_batch(&mut self) -> bool {
        self.predicts(Prediction::Repairs) && self.sender.sends_new_data_alone()
    }

    /// The acknowledgement that has to leave after predicted data, if one has.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
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

    /// Puts the acknowledgement that has to leave after predicted data behind a gap into `segment`, which has no options; whether one
    /// has.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment behind a gap")]
    pub fn poll_report(&mut self, now: Time, segment: &mut Segment) -> bool {
        if self.prediction != Prediction::FurtherData || !self.receiver.ack_due() || self.sender.output.due {
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

    /// The application has written: a sender with data out is as it was, and has more to send.
    #[inline]
    pub(super) fn after_write(&mut self) {
        if self.prediction != Prediction::Acknowledgements || self.sender.sk.packets_out == 0 {
            self.prediction = Prediction::Forgotten;
        }
    }

    /// The application has read: a receiver in order is so still, and may have to tell of its window.
    #[inline]
    pub(super) fn after_read(&mut self) {
        if !matches!(self.prediction, Prediction::Data | Prediction::FurtherData) {
            self.prediction = Prediction::Forgotten;
        }
    }

    /// Whether this is what is to be expected.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub(super) fn predicts(&mut self, what: Prediction) -> bool {
        if self.prediction == Prediction::Forgotten {
            self.predict();
        }
        self.prediction == what
    }

    #[inline(never)]
    fn predict(&mut self) {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let is_plain = self.has_fast_path
            && self.state == State::Established
            && self.gathered.is_none()
            && !sender.ecn.on
            && !self.ecn_echo;
        let sends_nothing =
            || sender.timer.unanswered_probes == 0 && !sender.output.due && sender.deadline() == Time::MAX;
        self.prediction = match (receiver.is_in_order(), sender.sk.packets_out > 0) {
            (true, true) if is_plain && receiver.has_acknowledged_all(sender.now) => {
                if sender.is_undisturbed() {
                    Prediction::Acknowledgements
                } else {
                    Prediction::Repairs
                }
            }
            (true, false) if is_plain && sends_nothing() => Prediction::Data,
            (false, false) if is_plain && receiver.is_growing() && sends_nothing() => Prediction::FurtherData,
            _ => Prediction::Nothing,
        };
    }

    /// Takes the header of an acknowledgement without data; whether it was to be expected.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub(super) fn take_acknowledgement(&mut self, now: Time, header: &Header) -> bool {
        let is_plain = header.flags.0 == Flags::ACK && header.len == 0;
        if !is_plain || header.seq != self.peer_wire(self.receiver.next()) {
            return false;
        }
        if !self.sender.on_predicted_ack(now, header, header.window != self.last_peer_window) {
            return false;
        }
        self.note_peer(header);
        true
    }

    /// Takes an acknowledgement that reports that the newest SACK block has grown; whether it is one that reports nothing else.
    pub(super) fn on_growth(&mut self, segment: &Segment) -> bool {
        let is_one = self.predicts(Prediction::Repairs)
            && segment.flags.0 == Flags::ACK
            && segment.len == 0
            && segment.seq == self.peer_wire(self.receiver.next())
            && self.sender.on_growth(segment);
        if is_one {
            self.note_peer(segment);
        }
        is_one
    }

    /// Takes the header of the next data in order; whether it was to be expected.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    fn take_data(&mut self, now: Time, header: &Header) -> bool {
        if !self.is_plain_data(header) || header.seq != self.peer_wire(self.receiver.next()) {
            return false;
        }
        self.sender.set_now(now);
        self.note_peer(header);
        let echo_age_us = self.echo_age_us(header);
        let sender = &self.sender;
        self.receiver.on_next_data(now, header, echo_age_us, || sender.rto());
        true
    }

    /// Takes the header of data behind a gap that begin where the last ones end; whether it was to be expected.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment behind a gap")]
    fn take_further_data(&mut self, now: Time, header: &Header) -> bool {
        if !self.is_plain_data(header) || header.seq != self.peer_wire(self.receiver.newest()) {
            return false;
        }
        self.sender.set_now(now);
        self.last_peer_window = header.window;
        let echo_age_us = self.echo_age_us(header);
        let sender = &self.sender;
        self.receiver.on_further_data(now, header, echo_age_us, || sender.rto());
        true
    }

    /// Whether a header is of data, and says nothing about what was sent here.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    fn is_plain_data(&self, header: &Header) -> bool {
        let is_plain = header.flags.0 | Flags::PSH == Flags::ACK | Flags::PSH && header.len > 0;
        is_plain && header.ack == self.sender.sk.snd_una && header.window == self.sender.peer_window.bytes
    }

    /// Remembers what the next segments sent, and the next ones received, are compared with.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    fn note_peer(&mut self, header: &Header) {
        if header.timestamps {
            self.ts_recent = header.tsval;
        }
        self.last_peer_window = header.window;
    }

    /// The header of a segment that is sent now, without sequence number and payload.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub(super) fn next_header(&mut self) -> Header {
        let timestamps = self.sender.settings.timestamps;
        Header {
            seq: 0,
            ack: self.peer_wire(self.receiver.next()),
            window: self.receiver.advertise(self.window_scale.unwrap_or(0)),
            tsval: if timestamps { self.sender.timestamp_ms() } else { 0 },
            tsecr: if timestamps { self.ts_recent } else { 0 },
            len: 0,
            flags: Flags(Flags::ACK),
            timestamps,
        }
    }
}
