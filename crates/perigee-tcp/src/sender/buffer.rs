//! The send buffer: how far ahead of SND.NXT the application has written.
//!
//! Linux compares the memory of the queue with the limit only where a write begins another large segment
//! (`tcp_sendmsg_locked`). It fills the last one without asking, and that one has room again whenever a train of it has
//! left. So a write ends up in flight as a whole, whatever the limit, as long as the windows let trains leave;
//! otherwise the queue fills up to the limit. Linux wakes a blocked application when a third of the limit is free, and
//! raises the limit with the congestion window (`tcp_sndbuf_expand`).
//!
//! Differences from Linux: the trains in flight count as having the size of the next one. Without segmentation offload, the limit is one of
//! payload in flight.

use super::state::stream::FIRST_BYTE;
use super::Sender;

impl Sender {
    /// Lets the application write if the buffer may wake it: space is free, or little is left, so that the limit may rise.
    #[inline]
    pub(super) fn write_ahead(&mut self) {
        if self.stream.una >= self.buffer.wake || self.buffer.end < self.stream.nxt + LARGEST_TRAIN {
            self.wake_writer();
        }
    }

    /// The application takes back what the buffer has not taken.
    pub(crate) fn withdraw(&mut self) {
        let stream = &mut self.stream;
        if !stream.fin_queued {
            stream.written = stream.written.min(self.buffer.end.max(stream.nxt).max(FIRST_BYTE));
            self.sk.write_seq = self.stream.to_wire(self.stream.written);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn wake_writer(&mut self) {
        if self.buffer.end >= self.stream.written {
            self.buffer.wake = u64::MAX;
            return;
        }
        if !self.settings.segmentation_offload {
            self.buffer.end = self.stream.una + self.settings.wmem[2].as_u64();
            return;
        }
        let (mss, nxt) = (u64::from(self.sk.mss_cache), self.stream.nxt);
        let train = self.train_size().min(u64::from(self.sk.snd_cwnd / 2).max(1)) * mss;
        let memory = |sent: u64| sent + sent.div_ceil(train) * TRAIN_OVERHEAD;
        let room = u64::from(self.sk.snd_cwnd.saturating_sub(self.sk.packets_in_flight())) * mss;
        let by_peer = self.peer_window.end.saturating_sub(nxt);
        let (in_flight, unsent) = (nxt - self.stream.una, self.buffer.end.saturating_sub(nxt));
        let leaving = if self.is_paced() { room.min(train) } else { room }.min(by_peer);
        // Linux raises the limit if the congestion window is not full after it has sent: data, the peer's window or the pacer held it back.
        if unsent.min(leaving) < room {
            self.expand_buffer();
        }
        let (limit, queued) = (self.buffer.limit, memory(in_flight) + unsent);
        let writable = limit / 3 * 2;
        if queued > writable && in_flight > 0 {
            self.buffer.wake = self.stream.una + ((queued - writable) * train / (train + TRAIN_OVERHEAD)).max(1);
            return;
        }
        self.note_bubble(unsent);
        let writes = unsent + limit.saturating_sub(queued).max(1).next_multiple_of((LARGEST_WRITE / mss).max(1) * mss);
        let sendable = if writes <= leaving {
            writes
        } else {
            let missing = limit.saturating_sub(memory(in_flight + leaving)).max(1);
            leaving + missing.next_multiple_of(self.largest_train() * mss)
        };
        self.buffer.end = nxt + sendable;
        self.buffer.wake = self.buffer.end.saturating_sub(writable);
    }

    /// Raises the limit to two congestion windows of full segments, or as many as the algorithm asks for (`tcp_sndbuf_expand`).
    fn expand_buffer(&mut self) {
        let sk = &mut self.sk;
        sk.snd_cwnd_stamp = self.now_ms;
        let segment = (u64::from(self.settings.mss) + SEGMENT_RESERVE).next_power_of_two() + SOCKET_BUFFER;
        let segments = sk.snd_cwnd.max(sk.reordering + 1).max(LEAST_SEGMENTS);
        let windows = sk.sndbuf_expand().unwrap_or(2);
        let expanded = u64::from(windows) * u64::from(segments) * segment;
        self.buffer.limit = self.buffer.limit.max(expanded.min(self.settings.wmem[2].as_u64()));
    }
}

/// Most bytes that an application writes at a time: the writes of the emulator's bulk transfers.
const LARGEST_WRITE: u64 = 1 << 18;
/// Linux's `GSO_MAX_SIZE`.
const LARGEST_TRAIN: u64 = 1 << 16;
/// Memory of a train beside its payload, bytes (`truesize` of a socket buffer without data; Linux 6.18, `ss -m`).
const TRAIN_OVERHEAD: u64 = 832;
/// Linux's reserve per segment: `MAX_TCP_HEADER` and `struct skb_shared_info`, bytes.
const SEGMENT_RESERVE: u64 = 640;
/// Size of `struct sk_buff`, aligned, bytes.
const SOCKET_BUFFER: u64 = 256;
/// Linux's `TCP_INIT_CWND`.
const LEAST_SEGMENTS: u32 = 10;
