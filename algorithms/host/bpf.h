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
enum { BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_SK_STORAGE = 24 };
enum { BPF_F_NO_PREALLOC = 1, BPF_SK_STORAGE_GET_F_CREATE = 1, BPF_ANY = 0 };
enum { AF_INET = 2, AF_INET6 = 10 };
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

struct in6_addr {
	union {
		u32 u6_addr32[4];
	} in6_u;
};
struct sock_common {
	u32 skc_daddr;
	u16 skc_family;
	u8 skc_state;
	struct in6_addr skc_v6_daddr;
};

#define SOCK_FIELDS struct sock_common __sk_common;
#define SOCK_STATE_FIELD
#define sk_state __sk_common.skc_state
#define SEEN const
#define FLAG_BITS(name, bits) SEEN u8 name : bits
#define MIN_RTT_FIELD struct minmax rtt_min;
#define HOST_FIELDS

#define CC_TABLE const
#define CC_FUNCTION __attribute__((noinline))

#else

#pragma clang attribute pop

/* The licence of the file, which the kernel asks for; one with another licence defines it before it includes tcp.h. */
#ifndef CC_LICENSE
#define CC_LICENSE "Dual MIT/GPL"
#endif
char _license[] SEC("license") = CC_LICENSE;
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
/* Milliseconds, whatever the kernel's tick: `tcp_mstamp` is what an algorithm of this file has in every kernel alike. */
static inline u32 jiffies_ms(struct sock *sk)
{
	return (u32)(tcp_sk(sk)->tcp_mstamp / USEC_PER_MSEC);
}
static inline u32 us_to_jiffies_ms(struct sock *sk, u32 us)
{
	return (u32)(((u64)us + USEC_PER_MSEC - 1) / USEC_PER_MSEC);
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

/* Lengths of the prefixes by which paths are remembered, of IPv4 and IPv6; the loader sets them. 0: none is. */
const volatile u64 remember_v4 = 0;
const volatile u64 remember_v6 = 0;

/* The layout is that of the loader's crates/perigee-bpf/src/memory.rs. Addresses in the order of the network. */
struct path_key {
	u32 family;
	u32 bits;
	u32 network[4];
};
struct path_entry {
	u64 saved_ns;
	u64 claimed_ns; /* 0: by none */
	u32 window;
	u32 rtt_us;
};
/* A claim ends with the jump; one whose connection ended before that counts no longer. */
#define PATH_CLAIM_NS 30000000000ULL

static inline u32 path_word(u32 word, u32 bits, u32 first)
{
	u32 within = bits <= first ? 0 : min32(bits - first, 32);

	return within == 0 ? 0 : word & __builtin_bswap32(~0U << (32 - within));
}

static inline struct path_key path_key(struct sock *sk)
{
	const struct in6_addr *to = &sk->__sk_common.skc_v6_daddr;
	struct path_key key = { .family = AF_INET, .bits = (u32)remember_v4 };
	u32 word[4] = { sk->__sk_common.skc_daddr, 0, 0, 0 };

	if (sk->__sk_common.skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++)
			word[i] = to->in6_u.u6_addr32[i];
		if (word[0] == 0 && word[1] == 0 && word[2] == __builtin_bswap32(0xffff)) {
			word[0] = word[3];
			word[2] = word[3] = 0;
		} else {
			key.family = AF_INET6;
			key.bits = (u32)remember_v6;
		}
	}
	for (int i = 0; i < 4; i++)
		key.network[i] = path_word(word[i], key.bits, 32 * i);
	return key;
}

#define CC_PATHS                                                                                                        \
	struct {                                                                                                            \
		__uint(type, BPF_MAP_TYPE_LRU_HASH);                                                                            \
		__uint(max_entries, 1);                                                                                         \
		__type(key, struct path_key);                                                                                   \
		__type(value, struct path_entry);                                                                               \
	} path_map SEC(".maps");                                                                                            \
	static inline bool path_memory(struct sock *sk)                                                                     \
	{                                                                                                                   \
		return remember_v4 != 0;                                                                                        \
	}                                                                                                                   \
	static inline struct path_entry *path_find(struct sock *sk)                                                         \
	{                                                                                                                   \
		struct path_key key = path_key(sk);                                                                             \
                                                                                                                        \
		return bpf_map_lookup_elem(&path_map, &key);                                                                    \
	}                                                                                                                   \
	static inline void path_save(struct sock *sk, u32 window, u32 rtt_us)                                               \
	{                                                                                                                   \
		struct path_key key = path_key(sk);                                                                             \
		struct path_entry *found = bpf_map_lookup_elem(&path_map, &key);                                                \
		struct path_entry entry = { .saved_ns = bpf_ktime_get_ns(), .window = window, .rtt_us = rtt_us };               \
                                                                                                                        \
		if (found)                                                                                                      \
			entry.claimed_ns = found->claimed_ns;                                                                       \
		bpf_map_update_elem(&path_map, &key, &entry, BPF_ANY);                                                          \
	}                                                                                                                   \
	static inline bool path_claim(struct sock *sk, struct path_saved *saved)                                            \
	{                                                                                                                   \
		struct path_entry *found = path_find(sk);                                                                       \
		u64 now = bpf_ktime_get_ns(), before;                                                                           \
                                                                                                                        \
		if (!found)                                                                                                     \
			return false;                                                                                               \
		before = found->claimed_ns;                                                                                     \
		if (before && now - before < PATH_CLAIM_NS)                                                                     \
			return false;                                                                                               \
		if (__sync_val_compare_and_swap(&found->claimed_ns, before, now) != before)                                     \
			return false;                                                                                               \
		saved->age_us = (now - found->saved_ns) / NSEC_PER_USEC;                                                        \
		saved->window = found->window;                                                                                  \
		saved->rtt_us = found->rtt_us;                                                                                  \
		return true;                                                                                                    \
	}                                                                                                                   \
	static inline void path_release(struct sock *sk)                                                                    \
	{                                                                                                                   \
		struct path_entry *found = path_find(sk);                                                                       \
                                                                                                                        \
		if (found)                                                                                                      \
			found->claimed_ns = 0;                                                                                      \
	}                                                                                                                   \
	static inline void path_forget(struct sock *sk)                                                                     \
	{                                                                                                                   \
		struct path_key key = path_key(sk);                                                                             \
                                                                                                                        \
		bpf_map_delete_elem(&path_map, &key);                                                                           \
	}

enum { SOL_TCP = 6, TCP_CONGESTION = 13, TCP_BPF_SNDCWND_CLAMP = 1002 };

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
