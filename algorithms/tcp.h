/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The contract between a congestion control and its host.
 *
 * An algorithm is one C file that includes this header. It is compiled twice: by the host's compiler into the
 * simulator, and by `clang -target bpf` into a struct_ops object that a running Linux kernel loads. The callbacks are
 * those of Linux's `tcp_congestion_ops`, the fields are the ones Linux lets a BPF congestion control see, and the names
 * are the kernel's. What exists in one home only is behind a helper of this file.
 *
 * Homes:
 *   __bpf__  structs carry preserve_access_index, so that the loader relocates each field for the kernel at hand;
 *            tcp_slow_start() and its kin are kernel functions
 *   native   the simulator owns the structs; crates/perigee-cc/src/sock.rs mirrors them and the build compares offsets
 *
 * Units: windows in packets, times in us unless the name says otherwise, rates of `sk_pacing_rate` in bytes/s.
 */
#ifndef PERIGEE_TCP_H
#define PERIGEE_TCP_H

typedef _Bool bool;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;
typedef signed char s8;

#define true 1
#define false 0
#define NULL ((void *)0)

#ifdef __bpf__
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef short __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
enum { BPF_MAP_TYPE_SK_STORAGE = 24, BPF_F_NO_PREALLOC = 1, BPF_SK_STORAGE_GET_F_CREATE = 1 };
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#define FLAG_BITS(name, bits) u8 name : bits
#else
#define FLAG_BITS(name, bits) u8 name
#endif

/*
 * Which structs these are, natively: a digest of all sizes and offsets. A library of an author's file carries it, and a
 * host of other structs refuses the library. The build says what to write here.
 */
#define CC_LAYOUT 0x17a542dc885351e8ULL
#define CA_PRIV_BYTES 104
#define STORAGE_BYTES 1024
#define MAX_PARAMS 24
#define TCP_INFINITE_SSTHRESH 0x7fffffffU
#define USEC_PER_MSEC 1000U
#define USEC_PER_SEC 1000000U
#define NSEC_PER_USEC 1000U

enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};
enum { SK_PACING_NONE, SK_PACING_NEEDED };

#ifdef __bpf__
struct minmax_sample {
	u32 t;
	u32 v;
};
struct minmax {
	struct minmax_sample s[3];
};
#endif

struct sock {
	u64 sk_pacing_rate;     /* bytes/s; all ones: unlimited */
	u64 sk_max_pacing_rate; /* bytes/s */
	u32 sk_pacing_status;
	u32 sk_gso_max_size; /* bytes */
	u8 sk_pacing_shift;
};

struct inet_connection_sock {
	struct sock sk;
	u64 icsk_ca_priv[CA_PRIV_BYTES / 8];
	FLAG_BITS(icsk_ca_state, 5);
	u8 icsk_retransmits;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 tcp_mstamp;       /* now, us */
	u64 tcp_wstamp_ns;    /* earliest departure of the next packet */
	u64 tcp_clock_cache;  /* now, ns */
	u64 delivered_mstamp; /* us */
	u64 first_tx_mstamp;  /* us */
	u64 bytes_acked;
	u64 bytes_sent;
	u32 snd_una;
	u32 snd_nxt;
	u32 high_seq;
	u32 write_seq;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 snd_cwnd_stamp; /* jiffies */
	u32 prior_cwnd;
	u32 prior_ssthresh;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 max_packets_out;
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 app_limited; /* `delivered` at which the idle bubble ends; 0: none */
	u32 total_retrans;
	u32 srtt_us; /* << 3 */
	u32 mdev_us; /* << 2 */
#ifdef __bpf__
	struct minmax rtt_min;
#else
	u32 rtt_min_us;
#endif
	u32 mss_cache; /* bytes */
	u32 advmss;
	u32 reordering;
	FLAG_BITS(is_cwnd_limited, 1);
	u8 ecn_flags;
	u32 lsndtime; /* last transmission of data, jiffies */
#ifndef __bpf__
	u64 cc_params[MAX_PARAMS];
	u64 cc_random;
	u64 cc_storage[STORAGE_BYTES / 8];
#endif
};

struct rate_sample {
	u64 prior_mstamp; /* us */
	u32 prior_delivered;
	u32 prior_delivered_ce;
	s32 delivered;
	s32 delivered_ce;
#ifdef __bpf__
	long interval_us;
#else
	s64 interval_us;
#endif
	u32 snd_interval_us;
	u32 rcv_interval_us;
#ifdef __bpf__
	long rtt_us;
#else
	s64 rtt_us;
#endif
	s32 losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	u32 last_end_seq;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	char name[16];
};

#ifdef __bpf__
#pragma clang attribute pop
#endif

/* Smaller and larger, by type: mixing signs or widths is then a visible cast. */
static inline u32 min32(u32 a, u32 b)
{
	return a < b ? a : b;
}
static inline u32 max32(u32 a, u32 b)
{
	return a > b ? a : b;
}
static inline u64 min64(u64 a, u64 b)
{
	return a < b ? a : b;
}
static inline u64 max64(u64 a, u64 b)
{
	return a > b ? a : b;
}
static inline u32 clamp32(u32 x, u32 low, u32 high)
{
	return x < low ? low : x > high ? high : x;
}
/* Sequence numbers and clocks that wrap: a is earlier than b. */
static inline bool before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}
static inline struct inet_connection_sock *inet_csk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}
/* The private area: at most CA_PRIV_BYTES, zero before init; CC_STATE(struct x) says what lies there. */
static inline void *inet_csk_ca(struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}

/*
 * CC_TABLE: constant data; libbpf does not place static ones of a BPF object.
 * CC_FUNCTION: a function of numbers that the kernel's verifier shall check once by itself, not in each caller's state.
 */
#ifdef __bpf__
#define CC_TABLE const
#define CC_FUNCTION __attribute__((noinline))
#else
#define CC_TABLE static const
#define CC_FUNCTION static inline
#endif

#ifdef __bpf__

char _license[] SEC("license") = "Dual MIT/GPL";
extern int CONFIG_HZ __kconfig __weak;
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

static inline u8 ca_state(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
}
static inline bool window_was_the_limit(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(tcp_sk(sk), is_cwnd_limited);
}
/* Windowed minimum of the round trip, us; all ones before a sample. */
static inline u32 tcp_min_rtt(struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}
static inline u32 random_u32(struct sock *sk)
{
	return bpf_get_prandom_u32();
}
/* Time since data were last sent, ms. */
static inline u32 since_last_send_ms(struct sock *sk)
{
	u32 hz = CONFIG_HZ > 0 ? CONFIG_HZ : 1000, ticks = (u32)bpf_jiffies64() - tcp_sk(sk)->lsndtime;

	return (u32)((u64)ticks * 1000 / hz);
}

#else

static inline u8 ca_state(struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_state;
}
static inline bool window_was_the_limit(struct sock *sk)
{
	return tcp_sk(sk)->is_cwnd_limited != 0;
}
static inline u32 tcp_min_rtt(struct tcp_sock *tp)
{
	return tp->rtt_min_us;
}
/* xorshift64*, Vigna: "An experimental exploration of Marsaglia's xorshift generators", 2016. The seed is not zero. */
static inline u32 random_u32(struct sock *sk)
{
	u64 x = tcp_sk(sk)->cc_random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	tcp_sk(sk)->cc_random = x;
	return (u32)((x * 0x2545f4914f6cdd1dULL) >> 32);
}
/* Jiffies are milliseconds here. */
static inline u32 since_last_send_ms(struct sock *sk)
{
	return (u32)(tcp_sk(sk)->tcp_mstamp / USEC_PER_MSEC) - tcp_sk(sk)->lsndtime;
}

/* RFC 5681, 3.1: one packet per packet acknowledged, up to ssthresh. Returns the packets not used up. */
static inline u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 grown = min32(tp->snd_cwnd + acked, tp->snd_ssthresh), used = grown - tp->snd_cwnd;

	tp->snd_cwnd = min32(grown, tp->snd_cwnd_clamp);
	return acked - used;
}
/* RFC 5681, 3.1, appropriate byte counting in packets: one packet per `w` acknowledged, remainder carried. */
static inline void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	/* Credit earned at a larger w counts once, not in a burst. */
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd++;
	}
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt >= w) {
		u32 steps = tp->snd_cwnd_cnt / w;

		tp->snd_cwnd_cnt -= steps * w;
		tp->snd_cwnd += steps;
	}
	tp->snd_cwnd = min32(tp->snd_cwnd, tp->snd_cwnd_clamp);
}

#endif

static inline bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}
/* A window that was not used up proves nothing and does not grow; slow start may double what was really in flight. */
static inline bool tcp_is_cwnd_limited(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (window_was_the_limit(sk))
		return true;
	return tcp_in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}
static inline u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}
static inline u32 now_ms(struct sock *sk)
{
	return (u32)(tcp_sk(sk)->tcp_mstamp / USEC_PER_MSEC);
}

#ifndef __bpf__

static inline void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (acked == 0)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}
/* RFC 5681, equation 4, on the window instead of the flight (proportional rate reduction follows it). */
static inline u32 tcp_reno_ssthresh(struct sock *sk)
{
	return max32(tcp_sk(sk)->snd_cwnd / 2, 2);
}
static inline u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	return max32(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}

#endif

/*
 * Parameters: a list of P(name, unit, default, min, max, doc), e.g.
 *
 *   #define PARAMETERS(P) P(rtt0, "us", 25000, 1000, 1000000, "round trip of the reference connection")
 *   CC_PARAMETERS(PARAMETERS)
 *   ... param(sk, rtt0) ...
 *
 * Units: "us", "bit/s", "packets", "switch" (0 or 1), "1/N" (a ratio in parts of N), "1" (a plain number). Values are
 * unsigned. In the simulator each socket has its own values; in the kernel the loader sets them for the whole object.
 *
 * State: CC_STATE(struct x) says what inet_csk_ca() points to, and that it fits. Beyond the private area:
 * CC_STORAGE(struct x), then cc_storage(sk), which may be NULL in the kernel.
 */
#define CC_CHECK_NAME(id)                                                                                               \
	enum { only_one_CC_REGISTER_per_file };                                                                             \
	_Static_assert(sizeof(#id) <= 16, "the name of an algorithm has at most 15 characters");
#define ASSERT_FITS_PRIVATE_AREA(layout) _Static_assert(sizeof(layout) <= CA_PRIV_BYTES, "state exceeds icsk_ca_priv")

#ifdef __bpf__

#define CC_PARAM_GLOBAL(name, unit, fallback, low, high, doc) const volatile u64 param_##name = fallback;
#define CC_PARAMETERS(list) list(CC_PARAM_GLOBAL)
#define param(sk, name) (param_##name)

#define CC_STATE(layout) ASSERT_FITS_PRIVATE_AREA(layout)

#define CC_STORAGE(layout)                                                                                                \
	struct {                                                                                                            \
		__uint(type, BPF_MAP_TYPE_SK_STORAGE);                                                                          \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                                           \
		__type(key, int);                                                                                               \
		__type(value, layout);                                                                                            \
	} storage_map SEC(".maps");                                                                                         \
	static inline layout *cc_storage(struct sock *sk)                                                                     \
	{                                                                                                                   \
		return bpf_sk_storage_get(&storage_map, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);                                 \
	}

#define CC_CALLBACK(ret, name, ...) SEC("struct_ops") ret BPF_PROG(name, __VA_ARGS__)
#define OP(function) ((void *)(function))
#define CC_REGISTER(id, about, list, ...)                                                                               \
	CC_CHECK_NAME(id)                                                                                                   \
	SEC(".struct_ops") struct tcp_congestion_ops id = { .name = #id, __VA_ARGS__ };

#else

struct cc_param {
	const char *name;
	const char *unit;
	const char *doc;
	u64 fallback;
	u64 low;
	u64 high;
};
struct cc_algorithm {
	struct tcp_congestion_ops ops;
	const char *title;
	const struct cc_param *params;
	u32 param_count;
	const u32 *state_bytes;
	const u32 *storage_bytes;
};
/* Zero unless CC_STATE or CC_STORAGE defines them: C's tentative definitions. */
static const u32 cc_state_bytes;
static const u32 cc_storage_bytes;

#define CC_PARAM_INDEX(name, unit, fallback, low, high, doc) PARAM_##name,
#define CC_PARAMETERS(list)                                                                                             \
	enum { list(CC_PARAM_INDEX) PARAM_COUNT };                                                                          \
	_Static_assert(PARAM_COUNT <= MAX_PARAMS, "too many parameters");
#define param(sk, name) (tcp_sk(sk)->cc_params[PARAM_##name])

#define CC_STATE(layout)                                                                                                \
	ASSERT_FITS_PRIVATE_AREA(layout);                                                                                   \
	static const u32 cc_state_bytes = sizeof(layout)

#define CC_STORAGE(layout)                                                                                                \
	static const u32 cc_storage_bytes = sizeof(layout);                                                                 \
	_Static_assert(sizeof(layout) <= STORAGE_BYTES, "state exceeds the socket's storage");                                \
	static inline layout *cc_storage(struct sock *sk)                                                                     \
	{                                                                                                                   \
		return (layout *)tcp_sk(sk)->cc_storage;                                                                          \
	}

#define CC_CALLBACK(ret, name, ...) static ret name(__VA_ARGS__)
#define OP(function) (function)
#define CC_PARAM_ROW(name, unit, fallback, low, high, doc) { #name, unit, doc, fallback, low, high },
/* A library of one file exports it under a name that its host knows. */
#ifdef CC_LIBRARY
#define CC_EXPORT(id)                                                                                                   \
	const u64 perigee_cc_layout = CC_LAYOUT;                                                                            \
	const struct cc_algorithm *const perigee_cc_algorithm = &perigee_cc_##id;
#else
#define CC_EXPORT(id)
#endif
#define CC_REGISTER(id, about, list, ...)                                                                               \
	CC_CHECK_NAME(id)                                                                                                   \
	static const struct cc_param cc_params[] = { list(CC_PARAM_ROW){ 0, 0, 0, 0, 0, 0 } };                              \
	extern const struct cc_algorithm perigee_cc_##id;                                                                   \
	const struct cc_algorithm perigee_cc_##id = {                                                                       \
		.ops = { .name = #id, __VA_ARGS__ },                                                                            \
		.title = about,                                                                                                 \
		.params = cc_params,                                                                                            \
		.param_count = PARAM_COUNT,                                                                                     \
		.state_bytes = &cc_state_bytes,                                                                                 \
		.storage_bytes = &cc_storage_bytes,                                                                             \
	};                                                                                                                  \
	CC_EXPORT(id)

#endif
#endif
