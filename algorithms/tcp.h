/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The contract between a congestion control and its host.
 *
 * An algorithm is one C file that includes this header. It is compiled twice: by the host's compiler into the
 * simulator (host/native.h), and by `clang -target bpf` into a struct_ops object that a running Linux kernel loads
 * (host/bpf.h). The callbacks are those of Linux's `tcp_congestion_ops`, the fields are the ones Linux lets a BPF
 * congestion control see, and the names are the kernel's. An algorithm uses what this file declares and nothing of
 * its host's own.
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

/*
 * Which structs these are, natively and in a browser: a digest of all sizes and offsets. A library of an author's file
 * carries it, and a host of other structs refuses the library. The build says what to write here.
 */
#ifndef __wasm32__
#define CC_LAYOUT 0x126ccdc4bc16c5c4ULL
#else /* pointers of 32 bits */
#define CC_LAYOUT 0x82a74f64da321bccULL
#endif
#define CA_PRIV_BYTES 104
#define STORAGE_BYTES 1280
#define MAX_PARAMS 24
#define MAX_WATCHED 64
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
/* `flags` of an algorithm: both ends negotiate ECN, all packets are ECT, and cwnd_event() reports the field of each segment with data. */
enum { TCP_CONG_NEEDS_ECN = 2 };
/* `ecn_flags`: the connection negotiated ECN; the next ACKs carry ECE. */
enum { TCP_ECN_OK = 1, TCP_ECN_DEMAND_CWR = 4 };
/* `icsk_ack.pending`: an ACK waits for its timer; one is due at once. */
enum { ICSK_ACK_TIMER = 2, ICSK_ACK_NOW = 16 };

/*
 * This header includes its host twice. First the host defines how the fields below are declared:
 *   SEEN                   what a field has that the kernel lets an algorithm read alone: `const` there
 *   FLAG_BITS(name, bits)  a flag or a small number
 *   MIN_RTT_FIELD          the windowed minimum of the round trip; read it by tcp_min_rtt()
 *   SOCK_FIELDS            fields of the host alone, at the begin of the socket
 *   SOCK_STATE_FIELD       the state of the connection, `sk_state`
 *   HOST_FIELDS            and at its end
 */
#ifdef __bpf__
#define CC_HOST "host/bpf.h"
#else
#define CC_HOST "host/native.h"
#endif
#include CC_HOST

struct sock {
	SOCK_FIELDS
	u64 sk_pacing_rate;          /* bytes/s; all ones: unlimited */
	SEEN u64 sk_max_pacing_rate; /* bytes/s */
	u32 sk_pacing_status;
	SEEN u32 sk_gso_max_size; /* bytes */
	SEEN u8 sk_pacing_shift;
	SOCK_STATE_FIELD
};

struct inet_connection_sock {
	struct sock sk;
	u64 icsk_ca_priv[CA_PRIV_BYTES / 8];
	FLAG_BITS(icsk_ca_state, 5);
	SEEN u8 icsk_retransmits;
	struct {
		u8 pending;
	} icsk_ack;
};

/* Timestamps of the last segment received, ms; in the simulator as of pkts_acked(), 0 without the option. */
struct tcp_options_received {
	SEEN u32 rcv_tsval;
	SEEN u32 rcv_tsecr;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	SEEN u64 tcp_mstamp;       /* now, us */
	SEEN u64 tcp_wstamp_ns;    /* earliest departure of the next packet */
	SEEN u64 tcp_clock_cache;  /* now, ns */
	SEEN u64 delivered_mstamp; /* us */
	SEEN u64 first_tx_mstamp;  /* us */
	SEEN u64 bytes_acked;
	SEEN u64 bytes_sent;
	SEEN u32 snd_una;
	SEEN u32 snd_nxt;
	SEEN u32 snd_wnd; /* the peer's window, bytes */
	SEEN u32 high_seq;
	SEEN u32 write_seq;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	SEEN u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 snd_cwnd_stamp; /* jiffies */
	SEEN u32 prior_cwnd;
	SEEN u32 prior_ssthresh;
	SEEN u32 packets_out;
	SEEN u32 sacked_out;
	SEEN u32 lost_out;
	SEEN u32 retrans_out;
	SEEN u32 max_packets_out;
	SEEN u32 delivered;
	SEEN u32 delivered_ce;
	SEEN u32 lost;
	u32 app_limited; /* `delivered` at which the idle bubble ends; 0: none */
	SEEN u32 total_retrans;
	SEEN u32 srtt_us; /* << 3 */
	SEEN u32 mdev_us; /* << 2 */
	MIN_RTT_FIELD
	SEEN u32 mss_cache; /* bytes */
	SEEN u32 advmss;
	SEEN u32 reordering;
	FLAG_BITS(is_cwnd_limited, 1);
	u8 ecn_flags;
	SEEN u32 lsndtime; /* last transmission of data, jiffies; see since_last_send_ms() */
	SEEN u32 rcv_nxt; /* the next byte to receive; in the simulator as of init() and the last event of ECN */
	struct tcp_options_received rx_opt;
	HOST_FIELDS
};

struct rate_sample {
	u64 prior_mstamp; /* us */
	u32 prior_delivered;
	u32 prior_delivered_ce;
	s32 delivered;
	s32 delivered_ce;
	s64 interval_us;
	u32 snd_interval_us;
	u32 rcv_interval_us;
	s64 rtt_us;
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
	u32 flags;
	char name[16];
};

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

static inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}
static inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}
/* The private area: at most CA_PRIV_BYTES, zero before init; CC_STATE(struct x) says what lies there. */
static inline void *inet_csk_ca(const struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}

static inline bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Helpers of the host. */
static inline u8 ca_state(struct sock *sk);
/* The window was what held the sender back in the last round. */
static inline bool window_was_the_limit(struct sock *sk);
/* Windowed minimum of the round trip, us; all ones before a sample. */
static inline u32 tcp_min_rtt(struct tcp_sock *tp);
static inline u32 random_u32(struct sock *sk);
/*
 * A clock that Linux has in jiffies, and a time in jiffies, rounded up; both in ms. In the simulator they go by the host's tick, if it
 * has one, for one ms otherwise. now_ms() is exact.
 */
static inline u32 jiffies_ms(struct sock *sk);
static inline u32 us_to_jiffies_ms(struct sock *sk, u32 us);
/* Time since data were last sent, ms. */
static inline u32 since_last_send_ms(struct sock *sk);
/* Time since the kernel loaded the algorithm; 0 in the simulator. */
static inline u64 since_loading_us(struct sock *sk);
/* Sends an ACK of what is before `rcv_nxt` now, beside those that are due. In the simulator for events of ECN, one for each. */
static inline void tcp_send_ack(struct sock *sk, u32 rcv_nxt);
/* Hands the connection over to the kernel's Reno, at the end of init(). The simulator does not: the algorithm behaves as Reno then. */
static inline void leave_to_reno(struct sock *sk);

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

/*
 * Parameters: a list of P(name, unit, default, min, max, doc), e.g.
 *
 *   #define PARAMETERS(P) P(rtt0, "us", 25000, 1000, 1000000, "round trip of the reference connection")
 *   CC_PARAMETERS(PARAMETERS)
 *   ... param(sk, rtt0) ...
 *
 * Units: "us", "bit/s", "packets", "switch" (0 or 1), "a|b|c" (a choice by name, whose place is the value), "1/N" (a ratio
 * in parts of N), "1" (a plain number). Values are unsigned. In the simulator each socket has its own values; in the kernel the loader sets them for the whole object.
 *
 * State: CC_STATE(struct x) says what inet_csk_ca() points to, and that it fits. Beyond the private area:
 * CC_STORAGE(struct x), then cc_storage(sk), which may be NULL in the kernel.
 *
 * Watched values: CC_WATCH(list, declarations), with a list of W(name, unit, expression, doc), names the values of the state that
 * a study with `measure.states` writes down; nothing else runs these expressions. They may use `sk` and what `declarations` defines:
 *
 *   #define WATCHED(W) W(state, "grow|hold", s->state, "phase") W(base_us, "us", s->base_us ? s->base_us : CC_EMPTY, "base delay")
 *   CC_WATCH(WATCHED, const struct x *s = inet_csk_ca(sk));
 *
 * Units are those of parameters; a name ends in its unit. CC_EMPTY: there is no value. In `state`, a choice, is what the algorithm does.
 *
 * Callbacks: CC_CALLBACK(ret, name, arguments) defines one; CC_REGISTER(id, title, list of parameters, .init = OP(name),
 * ...) ends the file.
 *
 * CC_TABLE: constant data; libbpf does not place static ones of a BPF object.
 * CC_FUNCTION: a function of numbers that the kernel's verifier shall check once by itself, not in each caller's state.
 */
#define CC_CHECK_NAME(id)                                                                                               \
	enum { only_one_CC_REGISTER_per_file };                                                                             \
	_Static_assert(sizeof(#id) <= 16, "the name of an algorithm has at most 15 characters");
#define ASSERT_FITS_PRIVATE_AREA(layout) _Static_assert(sizeof(layout) <= CA_PRIV_BYTES, "state exceeds icsk_ca_priv")

#define CC_EMPTY (~0ULL)

/*
 * Included for the second time, the host defines its helpers and the macros above, and these functions of the kernel:
 *   u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)             returns the packets not used up
 *   void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)  one packet per `w` acknowledged
 *   void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
 *   u32 tcp_reno_ssthresh(struct sock *sk)
 *   u32 tcp_reno_undo_cwnd(struct sock *sk)
 */
#define CC_STRUCTS_DECLARED
#include CC_HOST

/* State of the path that a connection saved for later ones to the same network. */
struct path_saved {
	u64 age_us;
	u32 window; /* packets */
	u32 rtt_us; /* least round trip */
};
/*
 * CC_PATHS defines these, where the file has it. In the simulator nothing is saved. In the kernel, the loader says whether anything is:
 *   bool path_memory(sk)                     whether it is
 *   void path_save(sk, window, rtt_us)       saves, in the place of what was saved
 *   bool path_claim(sk, struct path_saved *) what was saved, for one connection at a time; false: nothing, or another has it
 *   void path_release(sk)                    ends the claim
 *   void path_forget(sk)                     and removes what was saved
 */

#endif
