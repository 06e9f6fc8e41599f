//! One connection of a population while it is open: its two endpoints, and what its application does.

use perigee_tcp::{Endpoint, Flags, Segment};
use perigee_traffic::{End, OpenTransaction, Script, SenderTotals};
use perigee_units::Time;

use crate::application::{act, Wait};
use crate::connection::Connection;

/// An open connection.
pub(crate) struct Visit {
    pub(crate) connection: Connection,
    pub(crate) transaction: OpenTransaction,
    /// Level of its access delay.
    pub(crate) access: u32,
    script: Script,
    /// By end: what its application waits for.
    waits: [Wait; 2],
    /// Whether the applications look at each segment: while the connection opens or closes.
    attentive: bool,
}

impl Visit {
    /// A visit whose connection is opened now.
    pub(crate) fn open(
        now: Time,
        connection: Connection,
        transaction: OpenTransaction,
        script: Script,
        access: u32,
    ) -> Self {
        let waits = [Wait { bytes: u64::MAX, until: Time::MAX }; 2];
        let mut visit = Self { connection, transaction, access, script, waits, attentive: true };
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
        if to.is_established() {
            // The applications write at once.
            self.transaction.establish(now);
            self.transaction.ask(now);
        }
        for (end, host) in [(End::To, to), (End::From, from)] {
            if host.is_established() {
                self.waits[end as usize] = act(now, end, host, &mut self.script);
            }
        }
        self.attentive = !both || self.is_closing();
    }

    /// The response has been delivered: the applications do what is next.
    pub(crate) fn complete(&mut self, now: Time) {
        self.script.delivered(now, self.transaction.received());
        self.attend(now);
    }

    /// Whether the connection is gone, and if so, whether it has failed.
    #[inline]
    pub(crate) fn has_failed(&self) -> Option<bool> {
        let [Some(from), Some(to)] = &self.connection.ends else { return Some(false) };
        match [from.is_closed(), to.is_closed()] {
            [false, false] => None,
            _ if from.failure().or(to.failure()).is_some() => Some(true),
            [true, true] => Some(false),
            _ => None,
        }
    }

    /// The next instant at which an application has something to do.
    pub(crate) fn next_instant(&self) -> Time {
        self.waits[0].until.min(self.waits[1].until)
    }

    /// What the server has sent.
    pub(crate) fn sender(&self) -> SenderTotals {
        self.connection.sender_info().map_or(SenderTotals::default(), |server| SenderTotals {
            packets: server.sent_packets,
            retransmitted: server.retransmitted_packets,
            timeouts: server.rto_count,
        })
    }

    fn is_closing(&self) -> bool {
        self.connection.ends.iter().flatten().any(|end| Endpoint::peer_closed(end))
    }
}
