//! The kernel's side of a BPF congestion control: helpers and functions, on a socket in the object's layout.

use std::cell::Cell;

use crate::layout::Layout;
use crate::machine::Helper;

/// Jiffies per second, as in the native build.
pub(crate) const HZ: u32 = 1000;
/// The only map. Its address is arbitrary.
pub(crate) const STORAGE_MAP: u64 = 0x5700_0000;

const KTIME_NS: u32 = 5;
const GET_RANDOM: u32 = 7;
const STORAGE_GET: u32 = 107;
const SEND_ACK: u32 = 116;
const JIFFIES: u32 = 118;
const FIRST_FUNCTION: u32 = 1000;

/// Helpers by the kernel's number, then functions.
pub(crate) const HELPERS: [(u32, Helper); 10] = [
    (KTIME_NS, |_, _, _, _, _| NOW_US.get() * 1000),
    (GET_RANDOM, |_, _, _, _, _| u64::from(random())),
    (STORAGE_GET, |map, _, _, _, _| if map == STORAGE_MAP { STORAGE.get() } else { 0 }),
    (SEND_ACK, |tp, ack, _, _, _| View(tp).send_ack(ack as u32)),
    (JIFFIES, |_, _, _, _, _| NOW_US.get() / u64::from(1_000_000 / HZ)),
    (FIRST_FUNCTION, |tp, acked, _, _, _| u64::from(View(tp).slow_start(acked as u32))),
    (FIRST_FUNCTION + 1, |tp, window, acked, _, _| View(tp).avoid(window as u32, acked as u32)),
    (FIRST_FUNCTION + 2, |tp, _, acked, _, _| View(tp).reno(acked as u32)),
    (FIRST_FUNCTION + 3, |tp, _, _, _, _| u64::from((View(tp).get("snd_cwnd") >> 1).max(2))),
    (FIRST_FUNCTION + 4, |tp, _, _, _, _| u64::from(View(tp).get("snd_cwnd").max(View(tp).get("prior_cwnd")))),
];

/// The number of a kernel function.
pub(crate) fn kernel_function(name: &str) -> Option<u32> {
    let names =
        ["tcp_slow_start", "tcp_cong_avoid_ai", "tcp_reno_cong_avoid", "tcp_reno_ssthresh", "tcp_reno_undo_cwnd"];
    names.iter().position(|known| *known == name).map(|at| FIRST_FUNCTION + at as u32)
}

thread_local! {
    /// Address of the socket's storage.
    pub(crate) static STORAGE: Cell<u64> = const { Cell::new(0) };
    /// State of the random numbers, as in the native host, so that both builds draw the same.
    pub(crate) static RANDOM: Cell<u64> = const { Cell::new(1) };
    /// The ACK that the program has sent: what it acknowledges, and the socket's `ecn_flags` then.
    pub(crate) static EARLY_ACK: Cell<Option<(u32, u8)>> = const { Cell::new(None) };
    /// The clock.
    pub(crate) static NOW_US: Cell<u64> = const { Cell::new(0) };
    /// Offsets of the fields.
    pub(crate) static LAYOUT: Cell<Option<&'static Layout>> = const { Cell::new(None) };
}

/// xorshift64*, see `host/native.h`.
fn random() -> u32 {
    let mut x = RANDOM.get();
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    RANDOM.set(x);
    (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
}

/// A socket at an address. What Linux's functions do to it is written here a second time, from RFC 5681 and what they
/// are known to do, so that the native ones in `host/native.h` are compared with something else than themselves.
#[derive(Clone, Copy)]
struct View(u64);

impl View {
    fn at(self, field: &str) -> *mut u8 {
        let layout = LAYOUT.get().expect("a layout");
        (self.0 as usize + layout.offset(field)) as *mut u8
    }

    fn get(self, field: &str) -> u32 {
        // SAFETY: the only address a program can pass is that of the socket's buffer, where the layout has this field.
        unsafe { self.at(field).cast::<u32>().read_unaligned() }
    }

    fn set(self, field: &str, value: u32) {
        // SAFETY: as above.
        unsafe { self.at(field).cast::<u32>().write_unaligned(value) }
    }

    fn send_ack(self, ack: u32) -> u64 {
        // SAFETY: as in `get`.
        let flags = unsafe { self.at("ecn_flags").read() };
        EARLY_ACK.set(Some((ack, flags)));
        0
    }

    fn in_slow_start(self) -> bool {
        self.get("snd_cwnd") < self.get("snd_ssthresh")
    }

    fn slow_start(self, acked: u32) -> u32 {
        let (cwnd, ssthresh) = (self.get("snd_cwnd"), self.get("snd_ssthresh"));
        let target = (cwnd + acked).min(ssthresh);
        self.set("snd_cwnd", target.min(self.get("snd_cwnd_clamp")));
        acked - (target - cwnd)
    }

    fn avoid(self, window: u32, acked: u32) -> u64 {
        let (mut cwnd, mut credit) = (self.get("snd_cwnd"), self.get("snd_cwnd_cnt"));
        if credit >= window {
            (credit, cwnd) = (0, cwnd + 1);
        }
        credit += acked;
        if credit >= window {
            cwnd += credit / window;
            credit %= window;
        }
        self.set("snd_cwnd_cnt", credit);
        self.set("snd_cwnd", cwnd.min(self.get("snd_cwnd_clamp")));
        0
    }

    fn reno(self, mut acked: u32) -> u64 {
        // SAFETY: as in `get`.
        let limited = unsafe { self.at("is_cwnd_limited").read() } & 1 != 0;
        let doubled = self.in_slow_start() && self.get("snd_cwnd") < 2 * self.get("max_packets_out");
        if !limited && !doubled {
            return 0;
        }
        if self.in_slow_start() {
            acked = self.slow_start(acked);
            if acked == 0 {
                return 0;
            }
        }
        self.avoid(self.get("snd_cwnd"), acked)
    }
}
