//! Compiles every `algorithms/*.c`, writes the registry, and fails where C and Rust disagree about a struct.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a build reads the C files and writes the registry"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

// The very files of the crate, so that the offsets compared are those of the crate.
#[allow(dead_code, unreachable_pub, reason = "only offsets are taken")]
#[path = "src/raw.rs"]
mod raw;
#[allow(dead_code, unreachable_pub, reason = "only offsets are taken")]
#[path = "src/sock.rs"]
mod sock;

/// Size and alignment of a type on the target, whose pointers may be shorter than those of the machine that builds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    bytes: usize,
    align: usize,
}

/// The type of a field. `pointer` is the size of the target's pointers.
trait OnTarget {
    fn shape(pointer: usize) -> Shape;
}

/// A struct that C and Rust share.
trait Mirror {
    /// Its name in C.
    const C: &'static str;
    /// Its fields in order.
    fn fields() -> Vec<Field>;
}

struct Field {
    name: &'static str,
    /// Its offset where this program runs.
    offset_here: usize,
    shape: fn(usize) -> Shape,
}

macro_rules! alike_everywhere {
    ($($type:ty)*) => {$(
        impl OnTarget for $type {
            fn shape(_pointer: usize) -> Shape {
                Shape { bytes: size_of::<Self>(), align: align_of::<Self>() }
            }
        }
    )*};
}
alike_everywhere!(bool i8 u8 i32 u32 i64 u64 sock::AckState);

impl<T> OnTarget for *const T {
    fn shape(pointer: usize) -> Shape {
        Shape { bytes: pointer, align: pointer }
    }
}

impl OnTarget for sock::Words {
    fn shape(pointer: usize) -> Shape {
        Shape { bytes: pointer, align: pointer }
    }
}

/// A callback.
impl<T> OnTarget for Option<T> {
    fn shape(pointer: usize) -> Shape {
        Shape { bytes: pointer, align: pointer }
    }
}

impl<T: OnTarget, const N: usize> OnTarget for [T; N] {
    fn shape(pointer: usize) -> Shape {
        let Shape { bytes, align } = T::shape(pointer);
        Shape { bytes: N * bytes, align }
    }
}

impl<M: Mirror> OnTarget for M {
    fn shape(pointer: usize) -> Shape {
        lay_out::<M>(pointer).1
    }
}

/// The offset of each field and the size, by the rule of C.
fn lay_out<M: Mirror>(pointer: usize) -> (Vec<(&'static str, usize)>, Shape) {
    let (mut end, mut align) = (0_usize, 1);
    let place = |field: Field| {
        let shape = (field.shape)(pointer);
        let offset = end.next_multiple_of(shape.align);
        end = offset + shape.bytes;
        align = shape.align.max(align);
        (field.name, offset)
    };
    let offsets = M::fields().into_iter().map(place).collect();
    (offsets, Shape { bytes: end.next_multiple_of(align), align })
}

/// One `_Static_assert` per field, with the offsets of the target. Those of this machine are compared with the compiler's.
fn compare<M: Mirror>(out: &mut String, pointer: usize) {
    let here: Vec<_> = M::fields().into_iter().map(|field| (field.name, field.offset_here)).collect();
    let (offsets, shape) = lay_out::<M>(size_of::<usize>());
    assert_eq!((offsets, shape.bytes), (here, size_of::<M>()), "{}: the fields are in the order of the struct", M::C);
    let (c, (offsets, shape)) = (M::C, lay_out::<M>(pointer));
    for (field, offset) in offsets {
        let _ = writeln!(out, "_Static_assert(__builtin_offsetof(struct {c}, {field}) == {offset}, \"{c}.{field}\");");
    }
    let _ = writeln!(out, "_Static_assert(sizeof(struct {c}) == {}, \"size of {c}\");", shape.bytes);
}

/// The fields of structs by their names in C. The pattern names every field, so that one that is missing here is an error.
macro_rules! mirrors {
    ($($c:literal, $rust:path { $($field:ident),* $(,)? })*) => {$(
        impl Mirror for $rust {
            const C: &'static str = $c;
            fn fields() -> Vec<Field> {
                #[allow(unused, reason = "it has to compile, not to run")]
                fn every_field_is_compared(value: $rust) {
                    let $rust { $($field: _),* } = value;
                }
                fn shape<T: OnTarget>(_: fn(&$rust) -> &T) -> fn(usize) -> Shape {
                    T::shape
                }
                vec![$(Field {
                    name: stringify!($field),
                    offset_here: std::mem::offset_of!($rust, $field),
                    shape: shape(|value| &value.$field),
                }),*]
            }
        }
    )*};
}

/// The comparison as a C file: it compiles where the layouts agree.
fn layout_check(pointer: usize) -> String {
    let mut out = String::from("#include \"tcp.h\"\n");
    compare::<sock::Sock>(&mut out, pointer);
    compare::<sock::InetConnectionSock>(&mut out, pointer);
    compare::<sock::TcpSock>(&mut out, pointer);
    compare::<sock::RateSample>(&mut out, pointer);
    compare::<sock::AckSample>(&mut out, pointer);
    compare::<raw::Ops>(&mut out, pointer);
    compare::<raw::RawParam>(&mut out, pointer);
    compare::<raw::RawWatched>(&mut out, pointer);
    compare::<raw::RawWatch>(&mut out, pointer);
    compare::<raw::RawAlgorithm>(&mut out, pointer);
    for (name, value) in [
        ("CA_PRIV_BYTES", sock::CA_PRIV_BYTES),
        ("STORAGE_BYTES", sock::STORAGE_BYTES),
        ("MAX_PARAMS", sock::MAX_PARAMS),
        ("MAX_WATCHED", sock::MAX_WATCHED),
        ("TCP_INFINITE_SSTHRESH", sock::INFINITE_SSTHRESH as usize),
        ("TCP_CA_Loss", sock::CaState::Loss as usize),
        ("CA_EVENT_ECN_IS_CE", sock::CaEvent::EcnIsCe as usize),
        ("SK_PACING_NEEDED", sock::pacing::NEEDED as usize),
        ("TCP_CONG_NEEDS_ECN", sock::flags::NEEDS_ECN as usize),
        ("TCP_ECN_OK", sock::ecn::OK as usize),
        ("TCP_ECN_DEMAND_CWR", sock::ecn::DEMAND_CWR as usize),
        ("ICSK_ACK_TIMER", sock::ack::TIMER as usize),
        ("ICSK_ACK_NOW", sock::ack::NOW as usize),
    ] {
        let _ = writeln!(out, "_Static_assert({name} == {value}, \"{name}\");");
    }
    out
}

mirrors! {
    "sock", sock::Sock {
        sk_pacing_rate, sk_max_pacing_rate, sk_pacing_status, sk_gso_max_size, sk_pacing_shift, sk_state
    }
    "inet_connection_sock", sock::InetConnectionSock {
        sk, icsk_ca_priv, icsk_ca_state, icsk_retransmits, icsk_ack
    }
    "tcp_options_received", sock::OptionsReceived {
        rcv_tsval, rcv_tsecr
    }
    "tcp_sock", sock::TcpSock {
        inet_conn, tcp_mstamp, tcp_wstamp_ns, tcp_clock_cache, delivered_mstamp, first_tx_mstamp, bytes_acked,
        bytes_sent, snd_una, snd_nxt, snd_wnd, high_seq, write_seq, snd_cwnd, snd_cwnd_cnt, snd_cwnd_clamp,
        snd_ssthresh, snd_cwnd_stamp, prior_cwnd, prior_ssthresh, packets_out, sacked_out, lost_out,
        retrans_out, max_packets_out, delivered, delivered_ce, lost, app_limited, total_retrans, srtt_us,
        mdev_us, rtt_min_us, mss_cache, advmss, reordering, is_cwnd_limited, ecn_flags, lsndtime, rcv_nxt,
        rx_opt, cc_params, cc_random, cc_tick_us, cc_early_ack, cc_early_ack_due, cc_early_ack_ecn, cc_storage
    }
    "rate_sample", sock::RateSample {
        prior_mstamp, prior_delivered, prior_delivered_ce, delivered, delivered_ce, interval_us,
        snd_interval_us, rcv_interval_us, rtt_us, losses, acked_sacked, prior_in_flight, last_end_seq,
        is_app_limited, is_retrans, is_ack_delayed
    }
    "ack_sample", sock::AckSample {
        pkts_acked, rtt_us, in_flight
    }
    "tcp_congestion_ops", raw::Ops {
        init, release, ssthresh, cong_avoid, set_state, cwnd_event, in_ack_event, pkts_acked, min_tso_segs,
        cong_control, undo_cwnd, sndbuf_expand, flags, name
    }
    "cc_param", raw::RawParam {
        name, unit, doc, fallback, low, high
    }
    "cc_watched", raw::RawWatched {
        name, unit, doc
    }
    "cc_watch", raw::RawWatch {
        values, count, read
    }
    "cc_algorithm", raw::RawAlgorithm {
        ops, title, params, param_count, state_bytes, storage_bytes, watch
    }
}

/// `algorithms/*.c` by name, in order.
fn sources(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "c"))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)))
        .collect();
    found.sort();
    found
}

/// The registry: `ALL`, one address per file.
fn registry(names: &[(String, PathBuf)]) -> String {
    let mut out = String::from("unsafe extern \"C\" {\n");
    for (name, _) in names {
        let _ = writeln!(out, "    static perigee_cc_{name}: RawAlgorithm;");
    }
    let _ = write!(out, "}}\nstatic ALL: [Exported; {}] = [\n", names.len());
    for (name, _) in names {
        let _ = writeln!(out, "    Exported(&raw const perigee_cc_{name}),");
    }
    out.push_str("];\n");
    out
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn main() {
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../algorithms");
    let out = PathBuf::from(variable("OUT_DIR"));
    let found = sources(&folder);
    assert!(!found.is_empty(), "no algorithms in {}", folder.display());
    let pointer: usize = variable("CARGO_CFG_TARGET_POINTER_WIDTH").parse::<usize>().expect("a number of bits") / 8;
    let mut layout = layout_check(pointer);
    // The digest that `CC_LAYOUT` of `tcp.h` has to be.
    let digest = perigee_units::fnv1a(layout.bytes());
    let _ = writeln!(
        layout,
        "_Static_assert(CC_LAYOUT == {digest:#x}ULL, \"the structs have changed: CC_LAYOUT in tcp.h is {digest:#x}ULL\");"
    );
    let parts = [48, 32, 16, 0].map(|shift| format!("{:04x}", digest >> shift & 0xffff));
    let registry = format!(
        "{}const LAYOUT: u64 = 0x{};\nconst _: () = assert!(size_of::<RawAlgorithm>() == {});\n",
        registry(&found),
        parts.join("_"),
        raw::RawAlgorithm::shape(pointer).bytes
    );
    fs::write(out.join("registry.rs"), registry).expect("OUT_DIR is writable");
    let check = out.join("layout.c");
    fs::write(&check, layout).expect("OUT_DIR is writable");

    let mut build = cc::Build::new();
    build.include(&folder).opt_level(2).warnings(false).warnings_into_errors(true);
    build.flags(include_str!("../../algorithms/compile_flags.txt").lines());
    build.file(&check).files(found.iter().map(|(_, path)| path)).compile("perigee_algorithms");
    // For the build scripts of dependent crates: DEP_PERIGEE_ALGORITHMS_NAMES.
    println!("cargo:names={}", found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(","));
    println!("cargo:rerun-if-changed={}", folder.display());
    println!("cargo:rerun-if-changed=src/sock.rs");
    println!("cargo:rerun-if-changed=src/raw.rs");
    println!("cargo:rerun-if-changed=build.rs");
}
