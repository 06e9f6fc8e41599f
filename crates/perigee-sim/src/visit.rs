//! The visit of a user of a population: a session, its transaction, and what of it the population has counted.

use perigee_traffic::{End, OpenTransaction, SenderTotals};
use perigee_units::Time;

use crate::application::Stream;
use crate::connection::Connection;
use crate::session::Session;

/// An open session.
pub(crate) struct Visit {
    pub(crate) session: Session,
    pub(crate) transaction: OpenTransaction,
    /// The server's totals by now, as far as the population has counted them.
    counted: SenderTotals,
}

impl Visit {
    /// A visit whose session has been opened.
    pub(crate) fn new(session: Session, transaction: OpenTransaction) -> Self {
        Self { session, transaction, counted: SenderTotals::default() }
    }

    /// The applications do what is next.
    pub(crate) fn attend(&mut self, now: Time) {
        if self.session.host(End::To).is_some_and(Stream::is_established) {
            // The applications write at once.
            self.transaction.establish(now);
            self.transaction.ask(now);
        }
        self.session.attend(now);
    }

    /// The response has been delivered: the applications do what is next.
    pub(crate) fn complete(&mut self, now: Time) {
        self.session.script.delivered(now, self.transaction.received());
        self.attend(now);
    }

    /// The server's totals.
    pub(crate) fn sender(&self) -> SenderTotals {
        sender(&self.session.first)
    }

    /// Counts what the server has sent since the last time, as part of `total`.
    #[inline]
    pub(crate) fn count_sent(&mut self, total: &mut SenderTotals) {
        let sent = self.sender();
        total.replace(std::mem::replace(&mut self.counted, sent), sent);
    }

    /// Takes what has been counted out of `total`.
    pub(crate) fn discount_sent(&self, total: &mut SenderTotals) {
        total.replace(self.counted, SenderTotals::default());
    }

    /// Totals of each leg's sender.
    pub(crate) fn senders(&self) -> impl Iterator<Item = SenderTotals> {
        self.session.legs().map(sender)
    }
}

/// Totals of a connection's sender.
fn sender(connection: &Connection) -> SenderTotals {
    let Some(sender) = connection.sender() else { return SenderTotals::default() };
    let [packets, retransmitted, timeouts] = sender.sent();
    SenderTotals { packets, retransmitted, timeouts }
}
