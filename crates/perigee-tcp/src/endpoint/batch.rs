//! A batch of ACKs: processes them one after another, each followed by the data it releases.
//!
//! Every turn of a bulk transfer would set a tail loss probe timer that the next turn sets again. A batch defers the timer until it ends or
//! until any other event at the endpoint. The state of the last turn has not changed by then, so the deadline is the same.

use std::ops::Deref;

use perigee_units::Time;

use super::prediction::header;
use super::{Endpoint, Prediction};
use crate::segment::{Header, Train};
use crate::sender::Sender;

/// An endpoint whose timer may be deferred until its [batch](Endpoint::in_batch) ends.
///
/// ```
/// # use perigee_cc::Selected;
/// # use perigee_settings::Config;
/// # use perigee_tcp::{Endpoint, Header};
/// # use perigee_units::Time;
/// # let cc = Selected::parse("reno", &[]).unwrap();
/// # let mut endpoint = Endpoint::server(&Config::default(), &cc, 1);
/// # let (now, header) = (Time::ZERO, Header::default());
/// endpoint.in_batch(|mut batch| {
///     if !batch.take(now, &header) {
///         batch.endpoint().on_segment(now, &header.into(), false);
///     }
///     batch.send(now, |train| println!("{train:?} leaves"));
/// });
/// ```
#[derive(Debug)]
pub struct Batch<'a> {
    endpoint: &'a mut Endpoint,
}

impl Endpoint {
    /// Runs a batch, then sets the timer that it deferred.
    #[inline(always)]
    pub fn in_batch<R>(&mut self, run: impl FnOnce(Batch<'_>) -> R) -> R {
        let result = run(Batch { endpoint: self });
        self.sender.set_deferred_timer();
        result
    }
}

impl Batch<'_> {
    /// Fast path of [`Endpoint::on_segment`] for a predicted ACK without rare options and congestion mark. Returns `false`, with no effect,
    /// for any other segment.
    #[inline(always)]
    pub fn take(&mut self, now: Time, header: &Header) -> bool {
        self.endpoint.predicts(Prediction::Acknowledgements) && self.endpoint.take_acknowledgement(now, header)
    }

    /// Sends the new data that ACKs released, passing each train to `send`. Any other segment to send remains
    /// [pending](Endpoint::has_output).
    #[inline(always)]
    pub fn send(&mut self, now: Time, mut send: impl FnMut(Train)) {
        let endpoint = &mut *self.endpoint;
        if !endpoint.sender.output.due {
            return;
        }
        if now != endpoint.sender.now {
            endpoint.set_now(now);
        }
        let is_predicted = endpoint.prediction == Prediction::Acknowledgements;
        if is_predicted && endpoint.sender.is_held_back() {
            return endpoint.sender.end_turn_in_batch();
        }
        if !is_predicted && !endpoint.may_send_batch() {
            return;
        }
        let sk = &endpoint.sender.sk;
        let not_in_flight = if is_predicted { 0 } else { sk.packets_out - sk.packets_in_flight() };
        let Endpoint { sender, receiver, irs, window_scale, ts_recent, .. } = endpoint;
        let header = |sender: &Sender| header(sender, receiver, (*irs, *window_scale, *ts_recent));
        if sender.send_batch(header, not_in_flight, &mut send) {
            if is_predicted {
                endpoint.sender.end_turn_in_batch();
            } else {
                endpoint.sender.end_turn();
            }
        }
    }

    /// Takes the latest round-trip sample; `None` if there was none since the last call.
    #[inline]
    pub fn take_rtt(&mut self) -> Option<Time> {
        self.endpoint.take_rtt()
    }

    /// Whether no timer fires before `at`; may set a deferred timer to find out.
    #[inline(always)]
    pub fn is_idle_until(&mut self, at: Time) -> bool {
        if self.endpoint.prediction == Prediction::Acknowledgements {
            return self.endpoint.sender.is_idle_until(at);
        }
        at <= self.endpoint().deadline()
    }

    /// When pacing releases the next segment, if it holds back one.
    #[inline(always)]
    pub fn next_paced(&self) -> Option<Time> {
        let due = self.endpoint.sender.pacing_deadline();
        (due != Time::MAX).then_some(due)
    }

    /// Whether no timer but that of pacing fires until after `at`; may set a deferred timer to find out.
    #[inline(always)]
    pub fn is_idle_through(&mut self, at: Time) -> bool {
        if self.endpoint.prediction == Prediction::Acknowledgements {
            return self.endpoint.sender.is_idle_through(at);
        }
        at < self.endpoint().any_other_deadline()
    }

    /// Pacing releases segments: call at [`Batch::next_paced`].
    #[inline]
    pub fn on_paced(&mut self, now: Time) {
        self.endpoint.sender.set_now(now);
        self.endpoint.sender.on_pacing_timer();
    }

    /// The endpoint with its timer set, for any other operation.
    #[inline]
    pub fn endpoint(&mut self) -> &mut Endpoint {
        self.endpoint.sender.set_deferred_timer();
        self.endpoint
    }
}

impl Deref for Batch<'_> {
    type Target = Endpoint;
    #[inline]
    fn deref(&self) -> &Endpoint {
        self.endpoint
    }
}
