//! RACK (RFC 8985): finds losses by the time of sending.
//!
//! A segment is lost where one that was sent well after it has been delivered. Originals are sent in sequence order, so
//! that a cursor walks them in the order of sending; retransmissions have a list of their own in that order. Neither is
//! walked twice, and the cost does not grow with the window.

use std::collections::VecDeque;

use perigee_cc::TcpSock;

use super::queue::{mark, Entry, SendQueue};

/// State of RACK.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rack {
    /// Send time (us) and end of the segment delivered that was sent last.
    newest: (u64, u64),
    /// Round-trip time of that delivery.
    rtt_us: u64,
    /// Something newer was delivered since losses were looked for.
    advanced: bool,
    /// Originals below this entry were judged.
    cursor: u64,
    /// Retransmissions in the order of sending: entry and send time, us.
    retransmissions: VecDeque<(u64, u64)>,
    /// The path has delivered segments out of order.
    pub(crate) reordering_seen: bool,
    dsack_seen: bool,
    /// Reordering window, in quarters of the minimum round trip.
    window_steps: u32,
    /// Recoveries that the widened window persists for.
    window_persist: u32,
    /// Packets delivered when the window was last widened.
    last_delivered: u32,
}

/// What one search for losses judges by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    now_us: u64,
    /// Age at which a segment is lost, if a newer one was delivered.
    allowed_us: u64,
    /// A segment was found that is not old enough yet.
    waiting: bool,
}

impl Rack {
    /// An entry was delivered (RFC 8985, section 6.2, step 2; of its two checks of retransmissions the one by time, as in Linux).
    #[inline]
    pub(crate) fn advance(&mut self, sk: &TcpSock, entry: &Entry, now_us: u64) {
        let rtt_us = now_us - entry.sent_us;
        if entry.has(mark::EVER_RETRANS) && rtt_us < u64::from(sk.rtt_min_us) {
            return;
        }
        self.advance_to(entry, now_us);
    }

    /// [`Rack::advance`] by an entry that was never sent again.
    #[inline]
    pub(crate) fn advance_to(&mut self, entry: &Entry, now_us: u64) {
        self.advanced = true;
        self.rtt_us = now_us - entry.sent_us;
        let (newest_us, end) = self.newest;
        if entry.sent_us > newest_us || (entry.sent_us == newest_us && entry.end() > end) {
            self.newest = (entry.sent_us, entry.end());
        }
    }

    /// An entry was sent again.
    pub(crate) fn on_retransmit(&mut self, number: u64, sent_us: u64) {
        self.retransmissions.push_back((number, sent_us));
    }

    /// The receiver reported a duplicate of a retransmission: the window may be too narrow.
    pub(crate) fn on_duplicate(&mut self) {
        self.dsack_seen = true;
    }

    /// A recovery ended without an undo.
    pub(crate) fn on_recovered(&mut self) {
        self.window_persist = self.window_persist.saturating_sub(1);
    }

    /// A recovery proved needless by duplicate reports.
    pub(crate) fn on_needless_recovery(&mut self) {
        self.window_persist = (self.window_persist + 1).min(PERSIST_RECOVERIES);
    }

    /// Losses are to be looked for again.
    pub(crate) fn look_again(&mut self) {
        self.advanced = true;
    }

    /// Whether losses are to be looked for; asked once for each search.
    #[inline]
    pub(crate) fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.advanced)
    }

    /// Whether [`Rack::update_window`] has something to do.
    pub(crate) fn is_adapting(&self) -> bool {
        self.dsack_seen || (self.window_persist == 0 && self.window_steps != 1)
    }

    /// Widens the reordering window after duplicates, and narrows it after sixteen recoveries without
    /// (section 6.2, step 4).
    pub(crate) fn update_window(&mut self, prior_delivered: u32, delivered: u32) {
        if prior_delivered == 0 {
            return;
        }
        if (prior_delivered.wrapping_sub(self.last_delivered) as i32) < 0 {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.window_steps = (self.window_steps.max(1) + 1).min(255);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.window_persist = PERSIST_RECOVERIES;
        } else if self.window_persist == 0 {
            self.window_steps = 1;
        }
    }

    /// The reordering window, us.
    #[inline]
    pub(crate) fn window_us(&self, rtt_min_us: u32, srtt_us: u32) -> u64 {
        let quarter = u64::from(rtt_min_us >> 2);
        (quarter * u64::from(self.window_steps.max(1))).min(u64::from(srtt_us))
    }

    /// Begins a search: `window_us` after the newest delivery's round trip, what was sent before it is lost.
    #[inline]
    pub(crate) fn search(&self, now_us: u64, window_us: u64) -> Search {
        Search { now_us, allowed_us: self.rtt_us + window_us, waiting: false }
    }

    /// The next original that is lost.
    #[inline]
    pub(crate) fn next_lost_original(&mut self, queue: &SendQueue, search: &mut Search) -> Option<u64> {
        self.cursor = self.cursor.max(queue.first());
        while self.cursor < queue.next() {
            let number = self.cursor;
            let entry = queue.get(number);
            let is_candidate = !entry.has(mark::SACKED | mark::LOST | mark::EVER_RETRANS);
            if is_candidate && !self.is_lost(entry, search) {
                return None;
            }
            self.cursor += 1;
            if is_candidate {
                return Some(number);
            }
        }
        None
    }

    /// The next retransmission that is lost again.
    #[inline]
    pub(crate) fn next_lost_retransmission(&mut self, queue: &SendQueue, search: &mut Search) -> Option<u64> {
        while let Some(&(number, sent_us)) = self.retransmissions.front() {
            let entry = (number >= queue.first()).then(|| queue.get(number));
            let entry = entry.filter(|entry| entry.has(mark::RETRANS) && entry.sent_us == sent_us);
            if entry.is_some_and(|entry| !self.is_lost(entry, search)) {
                return None;
            }
            self.retransmissions.pop_front();
            if entry.is_some() {
                return Some(number);
            }
        }
        None
    }

    /// When the entries that a search left are lost at the latest, us from then; `None`: none waits.
    pub(crate) fn wait_us(&self, search: Search) -> Option<u64> {
        // Everything that waits was sent before the newest delivery, so it is due no later than that would be.
        search.waiting.then(|| (self.newest.0 + search.allowed_us).saturating_sub(search.now_us))
    }

    /// Whether a timeout may take an entry for lost: it is older than the newest delivery's round trip.
    pub(crate) fn is_overdue(&self, entry: &Entry, now_us: u64) -> bool {
        now_us - entry.sent_us >= self.rtt_us
    }

    /// Whether a newer segment was delivered and the reordering window has passed.
    #[inline]
    fn is_lost(&self, entry: &Entry, search: &mut Search) -> bool {
        if (entry.sent_us, entry.end()) >= self.newest {
            return false;
        }
        let is_expired = search.now_us - entry.sent_us >= search.allowed_us;
        search.waiting |= !is_expired;
        is_expired
    }
}

/// Linux's `TCP_RACK_RECOVERY_THRESH`.
const PERSIST_RECOVERIES: u32 = 16;
