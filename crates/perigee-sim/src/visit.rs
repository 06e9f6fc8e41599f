//! One connection of a population while it is open: its two endpoints, and what its application does.

use perigee_results::Transaction;
use perigee_tcp::{Endpoint, Flags, Info, Segment};
use perigee_traffic::{End, Script};
use perigee_units::Time;

use crate::application::{act, Wait};
use crate::connection::Connection;

/// An open connection.
pub(crate) struct Visit {
    pub(crate) connection: Connection,
    pub(crate) transaction: Transaction,
    /// Level of its access delay.
    pub(crate) access: u32,
    script: Script,
    /// By end: what its application waits for.
    waits: [Wait; 2],
    /// Payload that the user has received, in order and in all, as the population has counted it.
    pub(crate) counted: [u64; 2],
    /// Whether the applications look at each segment: while the connection opens or closes.
    attentive: bool,
    is_complete: bool,
}

/// What a segment or an instant has made of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    GoesOn,
    /// The response has arrived.
    Complete,
    /// The connection is closed at both ends.
    Closed,
    /// It has failed.
    Failed,
}

impl Visit {
    /// A visit whose connection is opened now.
    pub(crate) fn open(
        now: Time,
        connection: Connection,
        transaction: Transaction,
        script: Script,
        access: u32,
    ) -> Self {
        let waits = [Wait { bytes: u64::MAX, until: Time::MAX }; 2];
        let mut visit = Self {
            connection,
            transaction,
            access,
            script,
            waits,
            counted: [0; 2],
            attentive: true,
            is_complete: false,
        };
        if let Some(user) = visit.connection.ends[End::To as usize].as_deref_mut() {
            user.open(now);
        }
        visit
    }

    /// A segment arrives at an end. Answers with the round trip that the server has measured with it, if any.
    #[inline]
    pub(crate) fn on_segment(&mut self, now: Time, end: End, segment: &Segment, marked: bool) -> Option<Time> {
        let host = self.connection.ends[end as usize].as_deref_mut()?;
        host.on_segment(now, segment, marked);
        let rtt = if end == End::From { host.take_rtt() } else { None };
        let received = host.received();
        self.attentive |= segment.flags.0 & (Flags::RST | Flags::FIN) != 0;
        if self.attentive || received >= self.waits[end as usize].bytes {
            self.attend(now);
        }
        rtt
    }

    /// The timer of an end fires; it may be early.
    pub(crate) fn on_timer(&mut self, now: Time, end: End) {
        if self.connection.on_timer(now, end) {
            let received = self.connection.ends[end as usize].as_deref().map_or(0, Endpoint::received);
            if self.attentive || received >= self.waits[end as usize].bytes {
                self.attend(now);
            }
        }
    }

    /// The applications do what is next.
    pub(crate) fn attend(&mut self, now: Time) {
        let [Some(from), Some(to)] = &mut self.connection.ends else { return };
        let both = from.is_established() && to.is_established();
        if to.is_established() && self.transaction.established.is_none() {
            self.transaction.established = Some(now);
        }
        for (end, host) in [(End::To, to), (End::From, from)] {
            if host.is_established() {
                self.waits[end as usize] = act(now, end, host, &mut self.script);
            }
        }
        let asked = self.transaction.established.is_some();
        self.transaction.asked = self.transaction.asked.or(asked.then_some(now));
        self.attentive = !both || self.is_closing();
    }

    /// What has become of it.
    #[inline]
    pub(crate) fn outcome(&mut self, now: Time) -> Outcome {
        let [Some(from), Some(to)] = &self.connection.ends else { return Outcome::Closed };
        if !self.is_complete && self.counted[0] >= self.transaction.response {
            self.is_complete = true;
            self.script.delivered(now, self.counted[0]);
            return Outcome::Complete;
        }
        match [from.is_closed(), to.is_closed()] {
            [false, false] => Outcome::GoesOn,
            _ if from.failure().or(to.failure()).is_some() => Outcome::Failed,
            [true, true] => Outcome::Closed,
            _ => Outcome::GoesOn,
        }
    }

    /// Its number among the connections of its population.
    pub(crate) fn number(&self) -> u32 {
        self.transaction.number
    }

    /// Whether the response has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The next instant at which an application has something to do.
    pub(crate) fn next_instant(&self) -> Time {
        self.waits[0].until.min(self.waits[1].until)
    }

    /// Payload at the user, in order and in all.
    #[inline]
    pub(crate) fn at_user(&self) -> [u64; 2] {
        self.connection.ends[End::To as usize].as_deref().map_or(self.counted, |to| [to.received(), to.arrived()])
    }

    /// What the server has done.
    pub(crate) fn server(&self) -> Option<Info> {
        self.connection.sender_info()
    }

    fn is_closing(&self) -> bool {
        self.connection.ends.iter().flatten().any(|end| Endpoint::peer_closed(end))
    }
}
