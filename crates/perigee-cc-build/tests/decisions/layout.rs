//! Sockets in the layout of a BPF object.
//!
//! An object's instructions carry the field offsets of the structs as `tcp.h` declares them for BPF, until the kernel's loader
//! relocates them. Those declarations differ from the native ones (bit-fields, `rtt_min`, what only the simulator
//! has), so a socket is translated field by field. The offsets are asked of the compiler that made the object.

use std::fmt::Write as _;
use std::mem::offset_of;

use object::{Object, ObjectSection, ObjectSymbol};
use perigee_cc::{AckSample, RateSample, TcpSock};

/// A field of `struct tcp_sock` in both layouts.
struct Field {
    name: &'static str,
    native: usize,
    bytes: usize,
    bpf: usize,
}

/// Both layouts of a socket.
pub(crate) struct Layout {
    fields: Vec<Field>,
    /// Size of the BPF side's socket.
    pub(crate) bytes: usize,
}

macro_rules! fields {
    ($($name:literal: $($path:ident).+ = $c:literal, $kind:ty;)*) => {
        [$(($name, offset_of!(TcpSock, $($path).+), size_of::<$kind>(), $c)),*]
    };
}

/// Name, native offset, size, and offset on the BPF side. A bit-field has no address: it precedes its neighbour.
fn table() -> Vec<(&'static str, usize, usize, String)> {
    macro_rules! plain {
        ($($field:ident: $kind:ty),* $(,)?) => {
            [$((stringify!($field), offset_of!(TcpSock, $field), size_of::<$kind>(), stringify!($field))),*]
        };
    }
    let named = fields! {
        "sk_pacing_rate": inet_conn.sk.sk_pacing_rate = "inet_conn.sk.sk_pacing_rate", u64;
        "sk_max_pacing_rate": inet_conn.sk.sk_max_pacing_rate = "inet_conn.sk.sk_max_pacing_rate", u64;
        "sk_pacing_status": inet_conn.sk.sk_pacing_status = "inet_conn.sk.sk_pacing_status", u32;
        "sk_gso_max_size": inet_conn.sk.sk_gso_max_size = "inet_conn.sk.sk_gso_max_size", u32;
        "sk_pacing_shift": inet_conn.sk.sk_pacing_shift = "inet_conn.sk.sk_pacing_shift", u8;
        "icsk_ca_priv": inet_conn.icsk_ca_priv = "inet_conn.icsk_ca_priv", [u64; perigee_cc::CA_PRIV_BYTES / 8];
        "icsk_ca_state": inet_conn.icsk_ca_state = "inet_conn.icsk_retransmits) - (1", u8;
        "icsk_retransmits": inet_conn.icsk_retransmits = "inet_conn.icsk_retransmits", u8;
        "pending": inet_conn.icsk_ack.pending = "inet_conn.icsk_ack.pending", u8;
        "rtt_min": rtt_min_us = "rtt_min.s[0].v", u32;
        "rcv_tsval": rx_opt.rcv_tsval = "rx_opt.rcv_tsval", u32;
        "rcv_tsecr": rx_opt.rcv_tsecr = "rx_opt.rcv_tsecr", u32;
        "is_cwnd_limited": is_cwnd_limited = "ecn_flags) - (1", u8;
    };
    let plain = plain! {
        tcp_mstamp: u64, tcp_wstamp_ns: u64, tcp_clock_cache: u64, delivered_mstamp: u64, first_tx_mstamp: u64,
        bytes_acked: u64, bytes_sent: u64, snd_una: u32, snd_nxt: u32, snd_wnd: u32, high_seq: u32, write_seq: u32,
        snd_cwnd: u32, snd_cwnd_cnt: u32, snd_cwnd_clamp: u32, snd_ssthresh: u32, snd_cwnd_stamp: u32, prior_cwnd: u32,
        prior_ssthresh: u32, packets_out: u32, sacked_out: u32, lost_out: u32, retrans_out: u32, max_packets_out: u32,
        delivered: u32, delivered_ce: u32, lost: u32, app_limited: u32, total_retrans: u32, srtt_us: u32, mdev_us: u32,
        mss_cache: u32, advmss: u32, reordering: u32, ecn_flags: u8, lsndtime: u32, rcv_nxt: u32,
    };
    named.into_iter().chain(plain).map(|(name, native, bytes, c)| (name, native, bytes, c.to_owned())).collect()
}

impl Layout {
    /// Asks `compile`, which turns C into a BPF object.
    pub(crate) fn ask(compile: impl FnOnce(&str) -> Vec<u8>) -> Self {
        let table = table();
        let mut source = String::from("#include \"tcp.h\"\nconst u64 layout[] = {\n\tsizeof(struct tcp_sock),\n");
        for (_, _, _, c) in &table {
            let _ = writeln!(source, "\t__builtin_offsetof(struct tcp_sock, {c}),");
        }
        source.push_str("};\n");
        for (c, field, offset, size) in samples() {
            let _ =
                writeln!(source, "_Static_assert(__builtin_offsetof(struct {c}, {field}) == {offset}, \"{field}\");");
            let _ = writeln!(source, "_Static_assert(sizeof(struct {c}) == {size}, \"{c}\");");
        }
        let object = compile(&source);
        let file = object::File::parse(&*object).expect("an ELF file");
        let symbol = file.symbol_by_name("layout").expect("the table");
        let section = file.section_by_index(symbol.section_index().expect("its section")).expect("its section");
        let data = &section.data().expect("its bytes")[symbol.address() as usize..];
        let number = |at: usize| u64::from_le_bytes(data[8 * at..8 * at + 8].try_into().expect("eight bytes")) as usize;
        let fields = table.into_iter().enumerate().map(|(at, (name, native, bytes, _))| Field {
            name,
            native,
            bytes,
            bpf: number(at + 1),
        });
        Self { fields: fields.collect(), bytes: number(0) }
    }

    /// Fills the BPF side's socket.
    pub(crate) fn to_bpf(&self, native: &TcpSock, bpf: &mut [u8]) {
        let native = bytes_of(native);
        for field in &self.fields {
            bpf[field.bpf..field.bpf + field.bytes].copy_from_slice(&native[field.native..field.native + field.bytes]);
        }
    }

    /// The fields that differ, as text; empty if none does.
    pub(crate) fn differences(&self, native: &TcpSock, bpf: &[u8]) -> String {
        let native = bytes_of(native);
        let mut text = String::new();
        for field in &self.fields {
            let (ours, theirs) = (&native[field.native..][..field.bytes], &bpf[field.bpf..][..field.bytes]);
            if ours != theirs {
                let _ = write!(text, "{}: native {}, BPF {}; ", field.name, number(ours), number(theirs));
            }
        }
        text
    }

    /// The offset of a field on the BPF side.
    pub(crate) fn offset(&self, name: &str) -> usize {
        self.fields.iter().find(|field| field.name == name).expect("a field").bpf
    }
}

/// Fields of the samples, which have one layout.
fn samples() -> [(&'static str, &'static str, usize, usize); 5] {
    let (rate, ack) = (size_of::<RateSample>(), size_of::<AckSample>());
    [
        ("rate_sample", "interval_us", offset_of!(RateSample, interval_us), rate),
        ("rate_sample", "rtt_us", offset_of!(RateSample, rtt_us), rate),
        ("rate_sample", "acked_sacked", offset_of!(RateSample, acked_sacked), rate),
        ("rate_sample", "is_ack_delayed", offset_of!(RateSample, is_ack_delayed), rate),
        ("ack_sample", "in_flight", offset_of!(AckSample, in_flight), ack),
    ]
}

/// The socket's bytes.
fn bytes_of(sock: &TcpSock) -> &[u8] {
    // SAFETY: fields are read by offset and size; padding between them is never looked at.
    unsafe { std::slice::from_raw_parts((&raw const *sock).cast(), size_of::<TcpSock>()) }
}

fn number(bytes: &[u8]) -> String {
    match bytes.len() {
        1 | 2 | 4 | 8 => {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(wide).to_string()
        }
        _ => format!("{bytes:02x?}"),
    }
}
