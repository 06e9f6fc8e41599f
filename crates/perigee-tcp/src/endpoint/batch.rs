//! A batch of acknowledgements that a sender takes one after the other, with the data that they let out.
//!
//! Each turn of a bulk transfer would set a tail loss probe that the next turn sets anew. In a batch the timer is put off: it is set when
//! the batch ends, or when anything else happens to the endpoint, from the state of the last turn, which nothing has changed since.

use std::ops::Deref;

use perigee_units::Time;

use super::{Endpoint, Prediction};
use crate::segment::Header;

/// An endpoint whose timer may be put off until its [batch](Endpoint::in_batch) ends.
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
///     batch.send(now, |header| println!("{header:?} leaves"));
/// });
/// ```
#[derive(Debug)]
pub struct Batch<'a> {
    endpoint: &'a mut Endpoint,
}

impl Endpoint {
    /// Takes a batch of acknowledgements, and sends what they let out.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each batch")]
    pub fn in_batch<R>(&mut self, run: impl FnOnce(Batch<'_>) -> R) -> R {
        let result = run(Batch { endpoint: self });
        self.sender.settle_timer();
        result
    }
}

impl Batch<'_> {
    /// Fast path of [`Endpoint::on_segment`] for the header of a predicted acknowledgement without rare options and congestion mark.
    /// `false`: it is another segment, and has still to be taken.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub fn take(&mut self, now: Time, header: &Header) -> bool {
        self.endpoint.predicts(Prediction::Acknowledgements) && self.endpoint.take_acknowledgement(now, header)
    }

    /// Sends the new data that acknowledgements let out, and gives each header to `send`. Whatever else has to leave, the endpoint still
    /// [has](Endpoint::has_output).
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub fn send(&mut self, now: Time, mut send: impl FnMut(&Header)) {
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
        let absent = if is_predicted { 0 } else { sk.packets_out - sk.packets_in_flight() };
        let header = endpoint.next_header();
        if endpoint.sender.send_batch(header, absent, &mut send) {
            if is_predicted {
                endpoint.sender.end_turn_in_batch();
            } else {
                endpoint.sender.end_turn();
            }
        }
    }

    /// The newest round-trip sample, returned once.
    #[inline]
    pub fn take_rtt(&mut self) -> Option<Time> {
        self.endpoint.take_rtt()
    }

    /// True if no timer fires before `at`; may set a timer that was put off to find out.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub fn is_idle_until(&mut self, at: Time) -> bool {
        if self.endpoint.prediction == Prediction::Acknowledgements {
            return self.endpoint.sender.is_idle_until(at);
        }
        at <= self.endpoint().deadline()
    }

    /// When the pacing lets more go, if that is what is due next.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub fn next_paced(&mut self) -> Option<Time> {
        if self.endpoint.prediction == Prediction::Acknowledgements {
            return self.endpoint.sender.next_paced();
        }
        let due = self.endpoint.sender.pacing_deadline();
        (due != Time::MAX && due < self.endpoint().any_other_deadline()).then_some(due)
    }

    /// The instant of [`Batch::next_paced`] has come: what the pacing held back may leave.
    #[inline]
    pub fn on_paced(&mut self, now: Time) {
        self.endpoint.sender.set_now(now);
        self.endpoint.sender.on_pacing_timer();
    }

    /// The endpoint with its timer set, for anything else.
    #[inline]
    pub fn endpoint(&mut self) -> &mut Endpoint {
        self.endpoint.sender.settle_timer();
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
