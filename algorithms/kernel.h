/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Names of the Linux kernel that its congestion control modules use, on top of tcp.h: for files that `perigee cc import`
 * has written. Both hosts have one clock of the kernel's, `jiffies`: ms in the simulator, the kernel's own ticks there.
 *
 * A module has memory of its own: its parameters, and what its init computes of them. The simulator fills it before each
 * callback from the parameters of the socket at hand, so that nothing passes from one connection to another. In the kernel, init of each connection writes
 * the values, which are the same each time.
 */
#ifndef PERIGEE_KERNEL_H
#define PERIGEE_KERNEL_H

#include "tcp.h"
#include "fixed_point.h"
#include "windowed_max.h"

/* The kernel's own build warns of none of these. */
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#pragma GCC diagnostic error "-Wimplicit-function-declaration"

#ifndef KERNEL_VERSION
#define KERNEL_VERSION(major, minor, patch) (((major) << 16) + ((minor) << 8) + ((patch) > 255 ? 255 : (patch)))
#endif
#define LINUX_VERSION_CODE KERNEL_VERSION(6, 18, 0)

typedef unsigned long size_t;
union tcp_cc_info;
#define U8_MAX ((u8)~0U)
#define U16_MAX ((u16)~0U)
#define U32_MAX ((u32)~0U)
#define U64_MAX ((u64)~0ULL)
#define S32_MAX ((s32)(U32_MAX >> 1))
#define INT_MAX S32_MAX
#define UINT_MAX U32_MAX
#define U32_C(x) x##U
#define U64_C(x) x##ULL
#define EPERM 1
#define ENOENT 2
#define E2BIG 7
#define EAGAIN 11
#define ENOMEM 12
#define EFAULT 14
#define EBUSY 16
#define EEXIST 17
#define ENODEV 19
#define EINVAL 22
#define ERANGE 34
#define ENOSYS 38
#define EOPNOTSUPP 95
#define ENOBUFS 105
#define ENOTSUPP 524
#define MSEC_PER_SEC 1000U
#define NSEC_PER_MSEC 1000000U
#define NSEC_PER_SEC 1000000000U
#define GSO_LEGACY_MAX_SIZE 65536U
#define MAX_TCP_HEADER 320 /* bytes before the payload on x86-64 */
#define TCP_TS_HZ 1000
#define TCP_INIT_CWND 10
#define TCP_ECN_QUEUE_CWR 2
#define ICSK_CA_PRIV_SIZE CA_PRIV_BYTES
enum { TCPF_CA_Open = 1, TCPF_CA_Disorder = 2, TCPF_CA_CWR = 4, TCPF_CA_Recovery = 8, TCPF_CA_Loss = 16 };
enum { TCP_ESTABLISHED = 1, TCP_CLOSE = 7, TCP_LISTEN = 10 };
enum { TCP_CONG_NON_RESTRICTED = 1 };
enum tcp_ca_ack_event_flags { CA_ACK_SLOWPATH = 1, CA_ACK_WIN_UPDATE = 2, CA_ACK_ECE = 4 };

/* Marks of the build. */
#define __init
#define __exit
#define __read_mostly
#define __always_unused
#define __maybe_unused
#define __pure
#define __ro_after_init
#define __bpf_kfunc
#define __bpf_kfunc_start_defs() NOTHING_HERE
#define __bpf_kfunc_end_defs() NOTHING_HERE
#define __diag_push() NOTHING_HERE
#define __diag_pop() NOTHING_HERE
#define __diag_ignore_all(option, why) NOTHING_HERE
#define likely(x) (x)
#define unlikely(x) (x)
#ifndef __bpf__
#define __always_inline inline __attribute__((always_inline))
#endif
#define fallthrough __attribute__((fallthrough))
#define NOTHING_HERE _Static_assert(1, "")
#define EXPORT_SYMBOL(name) NOTHING_HERE
#define EXPORT_SYMBOL_GPL(name) NOTHING_HERE
#define BUILD_BUG_ON(wrong) _Static_assert(!(wrong), #wrong)
#define BUILD_BUG_ON_MSG(wrong, text) _Static_assert(!(wrong), text)
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define cmpxchg(at, old, new)                                                                                           \
	({                                                                                                                  \
		__typeof__(*(at)) found_ = *(at);                                                                               \
		if (found_ == (old))                                                                                            \
			*(at) = (new);                                                                                              \
		found_;                                                                                                         \
	})

/* Messages, counters and what else is of the kernel alone. */
#define pr_debug(...) ((void)0)
#define pr_info(...) ((void)0)
#define pr_warn(...) ((void)0)
#define pr_err(...) ((void)0)
#define printk(...) ((void)0)
#define WARN_ON(x)                                                                                                      \
	({                                                                                                                  \
		bool is_wrong_ = !!(x);                                                                                         \
		is_wrong_;                                                                                                      \
	})
#define WARN_ON_ONCE(x) WARN_ON(x)
#define WARN_ONCE(x, ...) WARN_ON(x)
#define NET_INC_STATS(net, field) ((void)0)
#define NET_ADD_STATS(net, field, count) ((void)0)
#define INET_ECN_dontxmit(sk) ((void)0)
#define tcp_call_bpf(sk, op, count, args) (-1)

/* The module: parameters and callbacks are registered at the end of the file. */
#define THIS_MODULE NULL
#define module_init(function) NOTHING_HERE
#define module_exit(function) NOTHING_HERE
#define module_param(name, type, mode) NOTHING_HERE
#define module_param_named(name, variable, type, mode) NOTHING_HERE
#define module_param_cb(name, ops, variable, mode) NOTHING_HERE
#define MODULE_PARM_DESC(name, text) NOTHING_HERE
#define MODULE_AUTHOR(text) NOTHING_HERE
#define MODULE_LICENSE(text) NOTHING_HERE
#define MODULE_DESCRIPTION(text) NOTHING_HERE
#define MODULE_VERSION(text) NOTHING_HERE
#define MODULE_ALIAS(text) NOTHING_HERE
#define tcp_register_congestion_control(ops) registered_below()
static inline int registered_below(void)
{
	return 0;
}
#define tcp_unregister_congestion_control(ops) ((void)0)
struct kernel_param;
struct kernel_param_ops {
	int (*set)(const char *, const struct kernel_param *);
	int (*get)(char *, const struct kernel_param *);
};
#define param_set_uint_minmax(text, param, least, most) 0
#define param_get_uint NULL
struct btf_kfunc_id_set {
	void *owner;
	const void *set;
};
#define BTF_SET_START(name) static const int name = 0;
#define BTF_SET_END(name)
#define BTF_ID(...)
#define BTF_SET8_START(name) BTF_SET_START(name)
#define BTF_SET8_END(name)
#define BTF_KFUNCS_START(name) BTF_SET_START(name)
#define BTF_KFUNCS_END(name)
#define BTF_ID_FLAGS(...)
#define register_btf_kfunc_id_set(type, set) ((void)(set), 0)
#define DEFINE_KFUNC_BTF_ID_SET(set, name) const void *const name = set
#define register_kfunc_btf_id_set(list, name) ((void)(name))
#define unregister_kfunc_btf_id_set(list, name) ((void)(name))

/* Another path after congestion (PLB, Linux 6.2): never, as where net.ipv4.tcp_plb_enabled is 0, its default. */
#define TCP_PLB_SCALE 8
struct tcp_plb_state {
	u8 consec_cong_rounds;
	u32 pause_until;
};
#define tcp_plb_init(sk, plb) ((void)(plb))
#define tcp_plb_update_state(sk, plb, ratio) ((void)(ratio))
#define tcp_plb_check_rehash(sk, plb) ((void)(plb))
#define tcp_plb_update_state_upon_rto(sk, plb) ((void)(plb))

/* Smaller and larger of one type, or of the type that is named. */
#define PICK(type_a, a, type_b, b, is_better)                                                                           \
	({                                                                                                                  \
		type_a a_ = (a);                                                                                                \
		type_b b_ = (b);                                                                                                \
		a_ is_better b_ ? a_ : b_;                                                                                      \
	})
#define min(a, b) PICK(__typeof__(a), a, __typeof__(b), b, <)
#define max(a, b) PICK(__typeof__(a), a, __typeof__(b), b, >)
#define min_t(type, a, b) PICK(type, a, type, b, <)
#define max_t(type, a, b) PICK(type, a, type, b, >)
#define min3(a, b, c) min(min(a, b), c)
#define max3(a, b, c) max(max(a, b), c)
#define clamp(x, low, high) min(max(x, low), high)
#define clamp_t(type, x, low, high) min_t(type, max_t(type, x, low), high)
#define clamp_val(x, low, high) clamp_t(__typeof__(x), x, low, high)
#define min_not_zero(a, b)                                                                                              \
	({                                                                                                                  \
		__typeof__(a) first_ = (a);                                                                                     \
		__typeof__(b) second_ = (b);                                                                                    \
		first_ == 0 ? second_ : second_ == 0 ? first_ : min(first_, second_);                                           \
	})
#define swap(a, b)                                                                                                      \
	do {                                                                                                                \
		__typeof__(a) kept_ = (a);                                                                                      \
		(a) = (b);                                                                                                      \
		(b) = kept_;                                                                                                    \
	} while (0)
/* Takes unsigned numbers, too: a difference that has wrapped is taken for the negative number that it is. */
#define SIGNED_MAGNITUDE(type, x)                                                                                       \
	({                                                                                                                  \
		type signed_ = (type)(x);                                                                                       \
		signed_ < 0 ? -signed_ : signed_;                                                                               \
	})
#define abs(x) __builtin_choose_expr(sizeof(x) > sizeof(s32), SIGNED_MAGNITUDE(s64, x), SIGNED_MAGNITUDE(s32, x))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(n) (1UL << (n))
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define DIV_ROUND_CLOSEST(x, d)                                                                                         \
	({                                                                                                                  \
		__typeof__(x) nearest_ = (x);                                                                                   \
		nearest_ < 0 ? (nearest_ - (d) / 2) / (d) : (nearest_ + (d) / 2) / (d);                                         \
	})
#define is_power_of_2(n) ((n) != 0 && ((n) & ((n) - 1)) == 0)
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#define memset __builtin_memset
#define memcpy __builtin_memcpy

/* Bits, counted from 1; 0: none is set. */
static inline int fls64(u64 x)
{
	int bits = 0;

	for (int step = 32; step > 0; step /= 2)
		if (x >> (bits + step))
			bits += step;
	return x ? bits + 1 : 0;
}
static inline int fls(u32 x)
{
	return fls64(x);
}
#define ilog2(x) (fls64(x) - 1)

/* Quotients. */
#define do_div(n, by)                                                                                                   \
	({                                                                                                                  \
		u32 by_ = (by), rest_ = (u32)((n) % by_);                                                                       \
		(n) = (n) / by_;                                                                                                \
		rest_;                                                                                                          \
	})
#define div_u64(n, by) ((u64)(n) / (u32)(by))
#define div64_u64(n, by) ((u64)(n) / (u64)(by))
#define div64_ul(n, by) ((u64)(n) / (unsigned long)(by))
#define div_s64(n, by) divide(n, by)
#define div64_s64(n, by) divide(n, by)
#define div64_long(n, by) divide(n, by)

/* Quotients of signed numbers, where the compiler for BPF has no such division; 0 where `by` is. */
#ifdef __bpf__
#define QUOTIENT(n, by)                                                                                                 \
	__builtin_choose_expr((__typeof__((n) / (by)))-1 < 0, (__typeof__((n) / (by)))divide(n, by), (n) / (by))
#else
#define QUOTIENT(n, by) ((n) / (by))
#endif
#define REMAINDER(n, by) ((n) - QUOTIENT(n, by) * (by))

/* Sequence numbers and times that wrap. */
#define after(a, b) before(b, a)
/* `x` is within [low, high]. */
#define between(x, low, high) ((u32)(high) - (u32)(low) >= (u32)(x) - (u32)(low))
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)
#define time_after32(a, b) ((s32)((u32)(b) - (u32)(a)) < 0)
#define time_before32(a, b) time_after32(b, a)

/* The host's: HZ, jiffies and random numbers, which name no socket; how what the module's init writes, and its tables, are stored. */
#ifdef __bpf__
static inline int kernel_hz(void)
{
	return (CONFIG_HZ > 0 ? CONFIG_HZ : 1000) & 0x7fff;
}
#define KERNEL_HZ kernel_hz()
#define jiffies bpf_jiffies64()
#define prandom_u32() bpf_get_prandom_u32()
/* Without this, clang keeps a variable of two values as one byte, which is not the size that its type says. */
#define KERNEL_GLOBAL __attribute__((used))
/* A short table would lie with other constants, where the loader does not find it. */
#define KERNEL_TABLE __attribute__((section(".rodata")))
/* Jumps out of the loop when the kernel's budget of rounds is used up: the instruction `may_goto`, Linux 6.9. */
#define KERNEL_AGAIN                                                                                                    \
	({                                                                                                                  \
		__label__ ended_, on_;                                                                                          \
		bool again_ = true;                                                                                             \
		asm volatile goto("1:.byte 0xe5; .byte 0; .long ((%l[ended_] - 1b - 8) / 8) & 0xffff; .short 0" ::::ended_);    \
		goto on_;                                                                                                       \
	ended_:                                                                                                             \
		again_ = false;                                                                                                 \
	on_:;                                                                                                               \
		again_;                                                                                                         \
	})
#define KERNEL_INDEX(table, index)                                                                                      \
	({                                                                                                                  \
		u64 index_ = (u32)(index);                                                                                      \
		asm volatile("" : "+r"(index_));                                                                                \
		index_ < ARRAY_SIZE(table) ? index_ : 0;                                                                        \
	})
/* Each address differs, so that the compiler cannot compute one from the index. */
#define KERNEL_MEMBER(array, index)                                                                                     \
	({                                                                                                                  \
		u32 index_ = (index);                                                                                           \
		__typeof__(&(array)[0]) at_ = &(array)[0];                                                                      \
		if (ARRAY_SIZE(array) > 3 && index_ == 3) {                                                                     \
			at_ = &(array)[3 % ARRAY_SIZE(array)];                                                                      \
			asm volatile("/* 3 */" : "+r"(at_));                                                                        \
		} else if (ARRAY_SIZE(array) > 2 && index_ == 2) {                                                              \
			at_ = &(array)[2 % ARRAY_SIZE(array)];                                                                      \
			asm volatile("/* 2 */" : "+r"(at_));                                                                        \
		} else if (index_ == 1) {                                                                                       \
			at_ = &(array)[1];                                                                                          \
			asm volatile("/* 1 */" : "+r"(at_));                                                                        \
		}                                                                                                               \
		at_;                                                                                                            \
	})
#else
#define KERNEL_GLOBAL __attribute__((section(".module")))
#define KERNEL_TABLE
#define KERNEL_AGAIN 1
#define KERNEL_INDEX(table, index) (index)
#define KERNEL_MEMBER(array, index) (&(array)[index])
#define KERNEL_HZ 1000
/* The socket of the callback at hand. */
static KERNEL_GLOBAL struct sock *module_socket;
#define jiffies ((unsigned long)jiffies_ms(module_socket))
#define prandom_u32() random_u32(module_socket)
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
struct minmax_sample {
	u32 t;
	u32 v;
};
struct minmax {
	struct minmax_sample s[3];
};
/* Functions that BPF programs call. */
#define BPF_CORE_READ_BITFIELD(from, field) ((from)->field)
#define BPF_CORE_READ_BITFIELD_PROBED(from, field) ((from)->field)
#define bpf_printk(...) ((void)0)
#define bpf_jiffies64() ((u64)jiffies)
#define bpf_ktime_get_ns() (tcp_sk(module_socket)->tcp_clock_cache)
#define bpf_get_prandom_u32() random_u32(module_socket)
#define bpf_tcp_send_ack(tp, rcv_nxt) (tcp_send_ack((struct sock *)(tp), rcv_nxt), 0)
#define __noinline __attribute__((noinline))
#define __weak
#define __hidden
#endif

#define HZ KERNEL_HZ
#define tcp_jiffies32 ((u32)jiffies)
#define USEC_PER_JIFFY (USEC_PER_SEC / (u32)HZ)
#define jiffies_to_usecs(ticks) ((u32)(ticks) * USEC_PER_JIFFY)
#define jiffies_to_msecs(ticks) (jiffies_to_usecs(ticks) / USEC_PER_MSEC)
#define usecs_to_jiffies(us) ((unsigned long)DIV_ROUND_UP((u32)(us), USEC_PER_JIFFY))
#define msecs_to_jiffies(ms) ((unsigned long)DIV_ROUND_UP((u64)(ms) * (u32)HZ, MSEC_PER_SEC))
#define get_random_u32() prandom_u32()
#define prandom_u32_max(end) ((u32)(((u64)prandom_u32() * (u32)(end)) >> 32))
#define get_random_u32_below(end) prandom_u32_max(end)
#define get_random_bytes(at, count)                                                                                     \
	do {                                                                                                                \
		u32 bytes_ = prandom_u32();                                                                                     \
		_Static_assert((count) <= sizeof(bytes_), "at most four random bytes at a time");                               \
		memcpy(at, &bytes_, count);                                                                                     \
	} while (0)

/* The socket. */
static inline u32 tcp_snd_cwnd(const struct tcp_sock *tp)
{
	return tp->snd_cwnd;
}
static inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 packets)
{
	tp->snd_cwnd = packets;
}
/* The largest window. In the kernel an option of the socket sets it, which sets the threshold as well. */
static inline void tcp_snd_cwnd_clamp_set(struct tcp_sock *tp, u32 packets)
{
#ifdef __bpf__
	u32 ssthresh = tp->snd_ssthresh;

	bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &packets, sizeof(packets));
	tp->snd_ssthresh = ssthresh;
#else
	tp->snd_cwnd_clamp = packets;
#endif
}
static inline u32 tcp_left_out(const struct tcp_sock *tp)
{
	return tp->sacked_out + tp->lost_out;
}
static inline u32 tcp_stamp_us_delta(u64 later_us, u64 earlier_us)
{
	return (s64)(later_us - earlier_us) > 0 ? (u32)(later_us - earlier_us) : 0;
}
/* ms */
static inline u32 tcp_time_stamp(const struct tcp_sock *tp)
{
	return (u32)(tp->tcp_mstamp / USEC_PER_MSEC);
}
/* During a reduction its target, otherwise three quarters of the window, or the threshold where that is larger. */
static inline u32 tcp_current_ssthresh(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u8 state = ca_state((struct sock *)sk);

	if (state == TCP_CA_CWR || state == TCP_CA_Recovery)
		return tp->snd_ssthresh;
	return max32(tp->snd_ssthresh, (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2));
}
#define tcp_time_stamp_ms(tp) tcp_time_stamp(tp)
#define tcp_time_stamp_ts(tp) tcp_time_stamp(tp)
/* Newer kernels give flags of the ACK, too, which BPF cannot set. */
#define __tcp_send_ack(sk, rcv_nxt, ...) tcp_send_ack(sk, rcv_nxt)
/* Newer kernels tell ECN of RFC 3168 from accurate ECN, which the simulator has not. */
#define TCP_ECN_MODE_RFC3168 TCP_ECN_OK
#define tcp_ecn_mode_any(tp) ((tp)->ecn_flags & TCP_ECN_OK)
#define tcp_ecn_mode_rfc3168(tp) tcp_ecn_mode_any(tp)
#define tcp_ecn_mode_accecn(tp) 0

/* Largest value of a window of rounds or times. */
static inline u32 minmax_get(const struct minmax *m)
{
	return m->s[0].v;
}
static inline u32 minmax_reset(struct minmax *m, u32 time, u32 value)
{
	for (int i = 0; i < 3; i++) {
		m->s[i].t = time;
		m->s[i].v = value;
	}
	return value;
}
static inline u32 minmax_running_max(struct minmax *m, u32 window, u32 time, u32 value)
{
	windowed_max_add((struct windowed_max *)m, window, time, value);
	return minmax_get(m);
}

/*
 * KERNEL_MODULE(list of parameters, call of the module's init): module_start() is called by the callback of a connection's
 * init, module_enter() by every other. In the simulator the host has asked perigee_cc_begin() before whether the module begins with
 * these values.
 */
#define KERNEL_FETCH(name, unit, fallback, low, high, doc) name = (__typeof__(name))param(sk, name);
#ifdef __bpf__
#define KERNEL_MODULE(list, start)                                                                                      \
	static inline void module_start(struct sock *sk)                                                                    \
	{                                                                                                                   \
		list(KERNEL_FETCH);                                                                                             \
		(void)(start);                                                                                                  \
	}
#define module_enter(sk) ((void)0)
#else
#define KERNEL_MODULE(list, start)                                                                                      \
	static KERNEL_GLOBAL u64 module_values[PARAM_COUNT + 1];                                                            \
	static int module_start(struct sock *sk)                                                                            \
	{                                                                                                                   \
		bool known = module_values[PARAM_COUNT];                                                                        \
		int refused;                                                                                                    \
                                                                                                                        \
		module_socket = sk;                                                                                             \
		for (int i = 0; i < PARAM_COUNT; i++) {                                                                         \
			known &= module_values[i] == tcp_sk(sk)->cc_params[i];                                                      \
			module_values[i] = tcp_sk(sk)->cc_params[i];                                                                \
		}                                                                                                               \
		if (known)                                                                                                      \
			return 0;                                                                                                   \
		list(KERNEL_FETCH);                                                                                             \
		refused = (start);                                                                                              \
		module_values[PARAM_COUNT] = refused == 0;                                                                      \
		return refused;                                                                                                 \
	}                                                                                                                   \
	int perigee_cc_begin(const u64 *values);                                                                            \
	int perigee_cc_begin(const u64 *values)                                                                             \
	{                                                                                                                   \
		static KERNEL_GLOBAL struct tcp_sock tp;                                                                        \
                                                                                                                        \
		for (int i = 0; i < PARAM_COUNT; i++)                                                                           \
			tp.cc_params[i] = values[i];                                                                                \
		return module_start((struct sock *)&tp);                                                                        \
	}
#define module_enter(sk) module_start(sk)
#endif

#endif
