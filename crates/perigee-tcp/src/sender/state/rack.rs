//! RACK (RFC 8985): time-based loss detection.
//!
//! A segment is lost if another one, sent sufficiently later, was delivered. Originals are sent in sequence order, so a cursor visits them
//! in send order; retransmissions have their own list in send order. Neither is visited twice, so the cost does not grow with the window.

use std::collections::VecDeque;

use perigee_cc::TcpSock;

use super::queue::{mark, QueueEntry, SendQueue};

/// State of RACK.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rack {
    /// Send time (us) and end of the most recently sent segment that was delivered.
    newest: (u64, u64),
    /// Its round-trip time.
    rtt_us: u64,
    /// A more recently sent segment was delivered since the last detection.
    advanced: bool,
    /// Originals below this entry have been examined.
    cursor: u64,
    /// Retransmissions in send order: entry number and send time, us.
    retransmissions: VecDeque<(u64, u64)>,
    /// The path has reordered segments.
    pub(crate) reordering_seen: bool,
    dsack_seen: bool,
    /// Reordering window, in quarters of the minimum RTT.
    window_steps: u32,
    /// Recoveries for which the widened window persists.
    window_persist: u32,
    /// Packets delivered when the window was last widened.
    last_delivered: u32,
}

/// State of one loss detection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    now_us: u64,
    /// Age above which a segment is lost, if a more recently sent one was delivered.
    allowed_us: u64,
    /// Some segment may be lost, but is not old enough yet.
    waiting: bool,
}

impl Rack {
    /// Processes a delivery (RFC 8985, section 6.2, step 2). Like Linux, checks retransmissions by time only.
    #[inline]
    pub(crate) fn advance(&mut self, sk: &TcpSock, entry: &QueueEntry, now_us: u64) {
        let rtt_us = now_us - entry.sent_us;
        if entry.has(mark::EVER_RETRANS) && rtt_us < u64::from(sk.rtt_min_us) {
            return;
        }
        self.advance_to(entry, now_us);
    }

    /// [`Rack::advance`] for an entry that was never retransmitted.
    #[inline]
    pub(crate) fn advance_to(&mut self, entry: &QueueEntry, now_us: u64) {
        self.advanced = true;
        self.rtt_us = now_us - entry.sent_us;
        let (newest_us, end) = self.newest;
        if entry.sent_us > newest_us || (entry.sent_us == newest_us && entry.end() > end) {
            self.newest = (entry.sent_us, entry.end());
        }
    }

    /// An entry was retransmitted.
    pub(crate) fn on_retransmit(&mut self, number: u64, sent_us: u64) {
        self.retransmissions.push_back((number, sent_us));
    }

    /// A D-SACK suggests that the reordering window is too narrow.
    pub(crate) fn on_duplicate(&mut self) {
        self.dsack_seen = true;
    }

    /// A recovery ended without an undo.
    pub(crate) fn on_recovered(&mut self) {
        self.window_persist = self.window_persist.saturating_sub(1);
    }

    /// D-SACK showed a recovery to be unnecessary.
    pub(crate) fn on_needless_recovery(&mut self) {
        self.window_persist = (self.window_persist + 1).min(PERSIST_RECOVERIES);
    }

    /// Requests another detection.
    pub(crate) fn look_again(&mut self) {
        self.advanced = true;
    }

    /// Whether a detection is due; resets the request.
    #[inline]
    pub(crate) fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.advanced)
    }

    /// Whether [`Rack::update_window`] has an effect.
    pub(crate) fn is_adapting(&self) -> bool {
        self.dsack_seen || (self.window_persist == 0 && self.window_steps != 1)
    }

    /// Widens the reordering window after a D-SACK, and narrows it after 16 recoveries without (section 6.2, step 4).
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

    /// Starts a detection: a segment is lost once it is older than the latest RTT plus `window_us`.
    #[inline]
    pub(crate) fn search(&self, now_us: u64, window_us: u64) -> Search {
        Search { now_us, allowed_us: self.rtt_us + window_us, waiting: false }
    }

    /// The next lost original.
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

    /// The next lost retransmission.
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

    /// Time until the remaining candidates of a detection are lost, us; `None` without candidates.
    pub(crate) fn wait_us(&self, search: Search) -> Option<u64> {
        // All candidates were sent before the newest delivery, so they are lost no later than it would be.
        search.waiting.then(|| (self.newest.0 + search.allowed_us).saturating_sub(search.now_us))
    }

    /// Whether a timeout may mark an entry lost: it is older than the latest RTT.
    pub(crate) fn is_overdue(&self, entry: &QueueEntry, now_us: u64) -> bool {
        now_us - entry.sent_us >= self.rtt_us
    }

    /// Whether a more recently sent segment was delivered and the reordering window has passed.
    #[inline]
    fn is_lost(&self, entry: &QueueEntry, search: &mut Search) -> bool {
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
