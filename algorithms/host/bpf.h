/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A running Linux kernel as host of congestion controls. tcp.h includes this file twice: for the fields, and for all that
 * uses them.
 *
 * Structs carry preserve_access_index, so that the loader relocates each field for the kernel at hand.
 */
#ifndef CC_STRUCTS_DECLARED

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
struct minmax_sample {
	u32 t;
	u32 v;
};
struct minmax {
	struct minmax_sample s[3];
};

#define FLAG_BITS(name, bits) u8 name : bits
#define MIN_RTT_FIELD struct minmax rtt_min;
#define HOST_FIELDS

#define CC_TABLE const
#define CC_FUNCTION __attribute__((noinline))

#else

#pragma clang attribute pop

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
static inline u32 tcp_min_rtt(struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}
static inline u32 random_u32(struct sock *sk)
{
	return bpf_get_prandom_u32();
}
static inline u32 since_last_send_ms(struct sock *sk)
{
	u32 hz = CONFIG_HZ > 0 ? CONFIG_HZ : 1000, ticks = (u32)bpf_jiffies64() - tcp_sk(sk)->lsndtime;

	return (u32)((u64)ticks * 1000 / hz);
}

/* When the object was loaded, by the monotonic clock; the loader sets it. */
const volatile u64 loaded_ns = 0;

static inline u64 since_loading_us(struct sock *sk)
{
	return loaded_ns ? (bpf_ktime_get_ns() - loaded_ns) / NSEC_PER_USEC : 0;
}

static inline void tcp_send_ack(struct sock *sk, u32 rcv_nxt)
{
	bpf_tcp_send_ack(tcp_sk(sk), rcv_nxt);
}

enum { SOL_TCP = 6, TCP_CONGESTION = 13 };

static inline void leave_to_reno(struct sock *sk)
{
	char reno[] = "reno";

	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

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

/* The kernel writes no tables of a state. */
#define CC_WATCH(list, ...) _Static_assert(1, "")

#define CC_CALLBACK(ret, name, ...) SEC("struct_ops") ret BPF_PROG(name, __VA_ARGS__)
#define OP(function) ((void *)(function))
#define CC_REGISTER(id, about, list, ...)                                                                               \
	CC_CHECK_NAME(id)                                                                                                   \
	SEC(".struct_ops") struct tcp_congestion_ops id = { .name = #id, __VA_ARGS__ };

#endif
