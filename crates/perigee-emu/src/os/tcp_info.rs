//! The kernel's state of a connection (`TCP_INFO`), and options of its socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use perigee_cc::INFINITE_SSTHRESH;
use perigee_results::SenderState;

/// The fields that are read of `struct tcp_info` (`linux/tcp.h`), Linux 6.7 and later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    pub(crate) state: u8,
    /// Whether both ends use SACK.
    pub(crate) sack: bool,
    /// Payload of a full segment that is sent, bytes.
    pub(crate) mss: u32,
    pub(crate) unacked: u32,
    pub(crate) sacked: u32,
    pub(crate) lost: u32,
    pub(crate) retrans: u32,
    pub(crate) rtt_us: u32,
    pub(crate) ssthresh: u32,
    pub(crate) cwnd: u32,
    /// Bytes per second; all ones: unlimited.
    pub(crate) pacing_rate: u64,
    /// Payload that was written and not yet sent, bytes.
    pub(crate) unsent: u32,
    /// Whether the send buffer takes another write.
    pub(crate) has_space: bool,
    pub(crate) busy_us: u64,
    pub(crate) rwnd_limited_us: u64,
    pub(crate) sndbuf_limited_us: u64,
    pub(crate) rto_count: u32,
}

impl TcpInfo {
    /// Reads that of a socket.
    pub(crate) fn of(socket: &impl AsFd) -> io::Result<Self> {
        let bytes: [u8; 256] = get(socket, (libc::IPPROTO_TCP, libc::TCP_INFO))?;
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Ok(Self {
            state: bytes[0],
            sack: bytes[5] & TCPI_OPT_SACK != 0,
            mss: word(16),
            unacked: word(24),
            sacked: word(28),
            lost: word(32),
            retrans: word(36),
            rtt_us: word(68),
            ssthresh: word(76),
            cwnd: word(80),
            pacing_rate: long(104),
            unsent: word(144),
            has_space: has_space(socket)?,
            busy_us: long(168),
            rwnd_limited_us: long(176),
            sndbuf_limited_us: long(184),
            rto_count: word(240) & 0xffff,
        })
    }

    /// Packets in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        (self.unacked + self.retrans).saturating_sub(self.sacked + self.lost)
    }

    /// Whether the socket is closed; the connection may still be in `TIME_WAIT`, which has no socket.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == TCP_CLOSE
    }

    /// The state for a row of the series; `paced`: the rate counts.
    pub(crate) fn state(&self, paced: bool) -> SenderState {
        SenderState {
            acked_bytes: 0,
            sacked_bytes: self.sack.then(|| u64::from(self.sacked) * u64::from(self.mss)),
            cwnd_packets: Some(self.cwnd),
            ssthresh_packets: (self.ssthresh < INFINITE_SSTHRESH).then_some(self.ssthresh),
            srtt_ms: (self.rtt_us > 0).then(|| f64::from(self.rtt_us) * 1e-3),
            inflight_packets: Some(self.in_flight()),
            pacing_mbps: (paced && self.pacing_rate < u64::MAX && self.pacing_rate > 0)
                .then_some(self.pacing_rate as f64 * 8e-6),
        }
    }
}

/// Makes TCP pace a socket at the rate of its window, by a limit that is never reached.
pub(crate) fn pace(socket: &impl AsFd) -> io::Result<()> {
    set(socket, (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE), u64::MAX - 1)
}

/// Limits the segments that TCP sends and announces; options are not counted.
pub(crate) fn limit_segments(socket: &impl AsFd, mss: u16) -> io::Result<()> {
    set(socket, (libc::IPPROTO_TCP, libc::TCP_MAXSEG), i32::from(mss))
}

/// Written but unacknowledged payload of a socket; zero without a connection.
pub(crate) fn unacknowledged(socket: &impl AsFd) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ writes an int to its argument, which lives for the call.
    let answer = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if answer == 0 {
        u64::from(bytes.unsigned_abs())
    } else {
        0
    }
}

/// Whether the send buffer takes another write: a third of it is free (`sk_stream_is_writeable`).
fn has_space(socket: &impl AsFd) -> io::Result<bool> {
    let bytes: [u8; 36] = get(socket, (libc::SOL_SOCKET, libc::SO_MEMINFO))?;
    let word = |at: usize| u64::from(u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
    let (limit, queued) = (word(4 * SK_MEMINFO_SNDBUF), word(4 * SK_MEMINFO_WMEM_QUEUED));
    Ok(queued + queued / 2 <= limit)
}

/// The bytes of an option; zeros where the kernel has fewer.
fn get<const SIZE: usize>(socket: &impl AsFd, (level, name): (i32, i32)) -> io::Result<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    let mut length = SIZE as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the buffer, and how many it wrote to `length`.
    let answer = unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, bytes.as_mut_ptr().cast(), &raw mut length)
    };
    if answer == 0 {
        Ok(bytes)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets an option whose value is a plain number.
pub(super) fn set<T: Copy>(socket: &impl AsFd, (level, name): (i32, i32), value: T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads the size of the value, which lives for the call.
    let answer = unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), size) };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Places in the answer to `SO_MEMINFO` (`linux/sock_diag.h`).
const SK_MEMINFO_SNDBUF: usize = 3;
const SK_MEMINFO_WMEM_QUEUED: usize = 5;
/// `TCP_CLOSE` of `net/tcp_states.h`.
/// Bit of the options (`linux/tcp.h`).
const TCPI_OPT_SACK: u8 = 2;
const TCP_CLOSE: u8 = 7;
