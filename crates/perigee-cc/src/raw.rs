//! Exports of an algorithm's object file: the Rust side of `struct cc_algorithm` in `algorithms/host/native.h`.

use std::ffi::c_char;

use crate::sock::{AckSample, RateSample, TcpSock};

/// `struct tcp_congestion_ops`. C's `struct sock *` is the address of the whole [`TcpSock`], whose first member it is.
///
/// A callback has exclusive use of the socket during the call, and keeps no pointer beyond it.
#[allow(missing_docs, reason = "the names are the kernel's")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Ops {
    pub init: Option<unsafe extern "C" fn(*mut TcpSock)>,
    pub release: Option<unsafe extern "C" fn(*mut TcpSock)>,
    pub ssthresh: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
    pub cong_avoid: Option<unsafe extern "C" fn(*mut TcpSock, u32, u32)>,
    pub set_state: Option<unsafe extern "C" fn(*mut TcpSock, u8)>,
    pub cwnd_event: Option<unsafe extern "C" fn(*mut TcpSock, u32)>,
    pub in_ack_event: Option<unsafe extern "C" fn(*mut TcpSock, u32)>,
    pub pkts_acked: Option<unsafe extern "C" fn(*mut TcpSock, *const AckSample)>,
    pub min_tso_segs: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
    pub cong_control: Option<unsafe extern "C" fn(*mut TcpSock, u32, i32, *const RateSample)>,
    pub undo_cwnd: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
    pub sndbuf_expand: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
    /// Bits of [`crate::flags`].
    pub flags: u32,
    pub name: [c_char; 16],
}

/// `struct cc_param`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RawParam {
    pub(crate) name: *const c_char,
    pub(crate) unit: *const c_char,
    pub(crate) doc: *const c_char,
    pub(crate) fallback: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// `struct cc_algorithm`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RawAlgorithm {
    pub(crate) ops: Ops,
    pub(crate) title: *const c_char,
    pub(crate) params: *const RawParam,
    pub(crate) param_count: u32,
    pub(crate) state_bytes: *const u32,
    pub(crate) storage_bytes: *const u32,
    pub(crate) watch: *const RawWatch,
}

/// `struct cc_watched`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RawWatched {
    pub(crate) name: *const c_char,
    pub(crate) unit: *const c_char,
    pub(crate) doc: *const c_char,
}

/// `struct cc_watch`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RawWatch {
    pub(crate) values: *const RawWatched,
    pub(crate) count: u32,
    pub(crate) read: Option<ReadWatched>,
}

/// Writes a number for each watched value, and changes nothing else.
pub(crate) type ReadWatched = unsafe extern "C" fn(*mut TcpSock, *mut u64);
