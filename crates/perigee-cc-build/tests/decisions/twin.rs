//! Runs each callback of an algorithm twice, natively and as BPF, on the same socket.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use perigee_cc::{AckSample, Algorithm, Callback, Ops, RateSample, TcpSock, STORAGE_BYTES};

use crate::host;
use crate::layout::Layout;
use crate::program::{link, Program};

thread_local! {
    static TWIN: RefCell<Option<Twin>> = const { RefCell::new(None) };
}

/// Both builds of an algorithm.
struct Twin {
    native: Ops,
    programs: BTreeMap<u64, Program>,
    layout: &'static Layout,
    sock: Box<[u64]>,
    storage: Box<[u64; STORAGE_BYTES / 8]>,
    /// Words of it that the algorithm asks for.
    words: usize,
    /// Room for a sample.
    sample: Box<[u64; size_of::<RateSample>() / 8]>,
    seen: Seen,
}

/// The result of the comparison of both builds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The number of calls of both builds.
    pub(crate) calls: u64,
    /// The number of ACKs that the algorithm has sent itself.
    pub(crate) early_acks: u64,
    /// The first call with different results.
    pub(crate) difference: Option<String>,
}

/// Returns an algorithm; this thread compares its calls from now on.
pub(crate) fn pair(
    algorithm: &'static Algorithm,
    values: &[u64],
    object: &[u8],
    layout: &'static Layout,
) -> &'static Algorithm {
    let sock = vec![0u64; layout.bytes.div_ceil(8)].into_boxed_slice();
    let storage = Box::new([0; STORAGE_BYTES / 8]);
    let sample = Box::new([0; size_of::<RateSample>() / 8]);
    let memory = [range(&sock), range(&*storage), range(&*sample)];
    let params: Vec<_> = algorithm.params().iter().map(|p| p.name).zip(values.iter().copied()).collect();
    let programs = link(object, &params, &memory);
    host::LAYOUT.set(Some(layout));
    host::STORAGE.set(storage.as_ptr() as u64);
    let native = *algorithm.ops().expect("it is built in");
    let words = algorithm.storage_bytes().div_ceil(8) as usize;
    TWIN.set(Some(Twin { native, programs, layout, sock, storage, words, sample, seen: Seen::default() }));
    // SAFETY: each callback passes its socket to the algorithm's own, and to a copy of it.
    unsafe { algorithm.with_ops(watched(&native)) }
}

/// The result of this thread's comparison.
pub(crate) fn seen() -> Seen {
    TWIN.with_borrow(|twin| twin.as_ref().map(|twin| twin.seen.clone()).unwrap_or_default())
}

fn range(words: &[u64]) -> std::ops::Range<u64> {
    let range = words.as_ptr_range();
    range.start as u64..range.end as u64
}

/// Returns the algorithm's callbacks, watched.
fn watched(own: &Ops) -> Ops {
    Ops {
        init: own.init.map(|_| init as _),
        release: own.release.map(|_| release as _),
        ssthresh: own.ssthresh.map(|_| ssthresh as _),
        cong_avoid: own.cong_avoid.map(|_| cong_avoid as _),
        set_state: own.set_state.map(|_| set_state as _),
        cwnd_event: own.cwnd_event.map(|_| cwnd_event as _),
        in_ack_event: own.in_ack_event.map(|_| in_ack_event as _),
        pkts_acked: own.pkts_acked.map(|_| pkts_acked as _),
        min_tso_segs: own.min_tso_segs.map(|_| min_tso_segs as _),
        cong_control: own.cong_control.map(|_| cong_control as _),
        undo_cwnd: own.undo_cwnd.map(|_| undo_cwnd as _),
        sndbuf_expand: own.sndbuf_expand.map(|_| sndbuf_expand as _),
        flags: own.flags,
        name: own.name,
    }
}

impl Twin {
    /// Runs the BPF build on a copy of the socket as it was, and compares with the socket as the native build left it.
    fn compare(
        &mut self,
        callback: Callback,
        (before, storage): (&TcpSock, &[u64]),
        arguments: &[u64],
        after: &TcpSock,
        answer: Option<u32>,
    ) {
        self.seen.calls += 1;
        if self.seen.difference.is_some() {
            return;
        }
        // SAFETY: words are bytes.
        let sock = unsafe { std::slice::from_raw_parts_mut(self.sock.as_mut_ptr().cast::<u8>(), self.layout.bytes) };
        self.layout.to_bpf(before, sock);
        self.storage[..storage.len()].copy_from_slice(storage);
        host::RANDOM.set(before.cc_random);
        host::NOW_US.set(before.tcp_mstamp);
        host::EARLY_ACK.set(None);
        let mut context = vec![sock.as_ptr() as u64];
        context.extend_from_slice(arguments);
        let Some(program) = self.programs.get(&callback.slot()) else {
            self.seen.difference = Some(format!("{callback:?}: the BPF build has no such callback"));
            return;
        };
        let theirs = program.call(&context) as u32;
        let mut text = self.layout.differences(after, sock);
        if self.storage[..storage.len()] != *words_of(after, storage.len()) {
            text += "storage; ";
        }
        if host::RANDOM.get() != after.cc_random {
            text += "random numbers; ";
        }
        let early = after.cc_early_ack_due.then_some((after.cc_early_ack, after.cc_early_ack_ecn));
        let theirs_early = host::EARLY_ACK.get();
        if early != theirs_early {
            let _ = write!(text, "early ACK: native {early:?}, BPF {theirs_early:?}; ");
        }
        self.seen.early_acks += u64::from(early.is_some());
        if let Some(ours) = answer.filter(|ours| *ours != theirs) {
            let _ = write!(text, "answer: native {ours}, BPF {theirs}; ");
        }
        if !text.is_empty() {
            let calls = self.seen.calls;
            self.seen.difference = Some(format!("call {calls}, {callback:?} with {arguments:?} at {before:?}: {text}"));
        }
    }

    /// The address of a sample's copy that the BPF build may read.
    fn sample<T: Copy>(&mut self, sample: &T) -> u64 {
        assert!(size_of::<T>() <= size_of_val(&*self.sample), "room for the sample");
        // SAFETY: the room is large enough and aligned for words.
        unsafe { self.sample.as_mut_ptr().cast::<T>().write(*sample) };
        self.sample.as_ptr() as u64
    }
}

/// The native storage of a socket during a call.
fn words_of(sock: &TcpSock, words: usize) -> &[u64] {
    // SAFETY: the host has this many words of storage, which nobody else uses during the call.
    unsafe { std::slice::from_raw_parts(sock.cc_storage.address(), words) }
}

/// Runs `native` on the socket and its twin on a copy.
fn twice<R: Copy>(
    callback: Callback,
    sk: *mut TcpSock,
    native: impl FnOnce(&Ops) -> R,
    answer: impl FnOnce(R) -> Option<u32>,
    arguments: impl FnOnce(&mut Twin) -> Vec<u64>,
) -> R {
    TWIN.with_borrow_mut(|twin| {
        let twin = twin.as_mut().expect("a pair");
        // SAFETY: the host passes the address of a socket that nobody else uses during the call.
        let before = unsafe { (*sk).clone() };
        let storage = words_of(&before, twin.words).to_vec();
        let result = native(&twin.native);
        let arguments = arguments(twin);
        // SAFETY: as above.
        let after = unsafe { &*sk };
        twin.compare(callback, (&before, &storage), &arguments, after, answer(result));
        result
    })
}

macro_rules! callback {
    ($name:ident, $slot:ident) => {
        unsafe extern "C" fn $name(sk: *mut TcpSock) {
            twice($slot, sk, |ops| unsafe { (ops.$name.expect("it has one"))(sk) }, |()| None, |_| Vec::new());
        }
    };
    ($name:ident, $slot:ident -> u32) => {
        unsafe extern "C" fn $name(sk: *mut TcpSock) -> u32 {
            twice($slot, sk, |ops| unsafe { (ops.$name.expect("it has one"))(sk) }, Some, |_| Vec::new())
        }
    };
    ($name:ident, $slot:ident, $($argument:ident: $kind:ty),+) => {
        unsafe extern "C" fn $name(sk: *mut TcpSock, $($argument: $kind),+) {
            let native = |ops: &Ops| unsafe { (ops.$name.expect("it has one"))(sk, $($argument),+) };
            twice($slot, sk, native, |()| None, |_| vec![$($argument as u64),+]);
        }
    };
}

use Callback::{
    CongAvoid, CongControl, CwndEvent, InAckEvent, Init, MinTsoSegs, PktsAcked, Release, SetState, SndbufExpand,
    Ssthresh, UndoCwnd,
};

callback!(init, Init);
callback!(release, Release);
callback!(ssthresh, Ssthresh -> u32);
callback!(cong_avoid, CongAvoid, ack: u32, acked: u32);
callback!(set_state, SetState, state: u8);
callback!(cwnd_event, CwndEvent, event: u32);
callback!(in_ack_event, InAckEvent, flags: u32);
callback!(min_tso_segs, MinTsoSegs -> u32);
callback!(sndbuf_expand, SndbufExpand -> u32);
callback!(undo_cwnd, UndoCwnd -> u32);

unsafe extern "C" fn pkts_acked(sk: *mut TcpSock, sample: *const AckSample) {
    // SAFETY: the host passes the address of a sample.
    let copy = unsafe { *sample };
    let native = |ops: &Ops| unsafe { (ops.pkts_acked.expect("it has one"))(sk, sample) };
    twice(PktsAcked, sk, native, |()| None, |twin| vec![twin.sample(&copy)]);
}

unsafe extern "C" fn cong_control(sk: *mut TcpSock, ack: u32, flag: i32, sample: *const RateSample) {
    // SAFETY: as above.
    let copy = unsafe { *sample };
    let native = |ops: &Ops| unsafe { (ops.cong_control.expect("it has one"))(sk, ack, flag, sample) };
    let arguments = |twin: &mut Twin| vec![u64::from(ack), flag as u64, twin.sample(&copy)];
    twice(CongControl, sk, native, |()| None, arguments);
}
