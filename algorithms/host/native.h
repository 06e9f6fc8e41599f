/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The simulator as host of congestion controls. tcp.h includes this file twice: for the fields, and for all that uses them.
 *
 * The simulator owns the structs: crates/perigee-cc/src/sock.rs mirrors them, and the build compares offsets.
 */
#ifndef CC_STRUCTS_DECLARED

/* Writes that only the kernel forbids are left to `perigee cc check`. */
#define SEEN
#define FLAG_BITS(name, bits) u8 name
/* Authors' files are warned of what only the simulator has. */
#ifdef CC_LIBRARY
#define ONLY_HERE(instead) __attribute__((deprecated("the kernel has no such field; " instead " is in both")))
#else
#define ONLY_HERE(instead)
#endif
#define MIN_RTT_FIELD u32 rtt_min_us ONLY_HERE("tcp_min_rtt(tp)");
#define SOCK_FIELDS
#define SOCK_STATE_FIELD u8 sk_state; /* TCP_ESTABLISHED */
#define HOST_FIELDS                                                                                                     \
	u64 cc_params[MAX_PARAMS];                                                                                          \
	u64 cc_random;                                                                                                      \
	u32 cc_tick_us;                                                                                                     \
	u32 cc_early_ack;                                                                                                   \
	bool cc_early_ack_due;                                                                                              \
	u8 cc_early_ack_ecn;                                                                                                \
	u64 *cc_storage;

#define CC_TABLE static const
#define CC_FUNCTION static inline

#else

static inline u8 ca_state(struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_state;
}
static inline bool window_was_the_limit(struct sock *sk)
{
	return tcp_sk(sk)->is_cwnd_limited != 0;
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static inline u32 tcp_min_rtt(struct tcp_sock *tp)
{
	return tp->rtt_min_us;
}
#pragma GCC diagnostic pop
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
/* The whole ticks of the host in a time, which is then in ms; where it has no tick, whole milliseconds. */
static inline u32 whole_ticks_ms(struct sock *sk, u64 us)
{
	u32 tick = tcp_sk(sk)->cc_tick_us;

	return (u32)((tick ? us / tick * tick : us) / USEC_PER_MSEC);
}
static inline u32 jiffies_ms(struct sock *sk)
{
	return whole_ticks_ms(sk, tcp_sk(sk)->tcp_mstamp);
}
static inline u32 us_to_jiffies_ms(struct sock *sk, u32 us)
{
	u32 tick = tcp_sk(sk)->cc_tick_us;

	return whole_ticks_ms(sk, (u64)us + (tick ? tick : USEC_PER_MSEC) - 1);
}
/* `lsndtime` has the whole millisecond here. */
static inline u32 since_last_send_ms(struct sock *sk)
{
	return jiffies_ms(sk) - whole_ticks_ms(sk, (u64)tcp_sk(sk)->lsndtime * USEC_PER_MSEC);
}

static inline u64 since_loading_us(struct sock *sk)
{
	(void)sk;
	return 0;
}

/* The flags are those of the moment: the algorithm changes them for the ACKs after this one. */
static inline void tcp_send_ack(struct sock *sk, u32 rcv_nxt)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->cc_early_ack = rcv_nxt;
	tp->cc_early_ack_ecn = tp->ecn_flags;
	tp->cc_early_ack_due = true;
}

static inline void leave_to_reno(struct sock *sk)
{
	(void)sk;
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

struct cc_param {
	const char *name;
	const char *unit;
	const char *doc;
	u64 fallback;
	u64 low;
	u64 high;
};
/* A value that results may show. */
struct cc_watched {
	const char *name;
	const char *unit;
	const char *doc;
};
/* All of them; `read` writes `count` numbers, and changes nothing else. */
struct cc_watch {
	const struct cc_watched *values;
	u32 count;
	void (*read)(struct sock *sk, u64 *out);
};
struct cc_algorithm {
	struct tcp_congestion_ops ops;
	const char *title;
	const struct cc_param *params;
	u32 param_count;
	const u32 *state_bytes;
	const u32 *storage_bytes;
	const struct cc_watch *watch;
};
/* Zero unless CC_STATE, CC_STORAGE or CC_WATCH defines them: C's tentative definitions. */
static const u32 cc_state_bytes;
static const u32 cc_storage_bytes;
static const struct cc_watch cc_watch;

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

#define CC_PATHS                                                                                                        \
	static inline bool path_memory(struct sock *sk)                                                                     \
	{                                                                                                                   \
		return false;                                                                                                   \
	}                                                                                                                   \
	static inline void path_save(struct sock *sk, u32 window, u32 rtt_us)                                               \
	{                                                                                                                   \
	}                                                                                                                   \
	static inline bool path_claim(struct sock *sk, struct path_saved *saved)                                            \
	{                                                                                                                   \
		return false;                                                                                                   \
	}                                                                                                                   \
	static inline void path_release(struct sock *sk)                                                                    \
	{                                                                                                                   \
	}                                                                                                                   \
	static inline void path_forget(struct sock *sk)                                                                     \
	{                                                                                                                   \
	}

#define CC_WATCH_ROW(name, unit, value, doc) { #name, unit, doc },
#define CC_WATCH_VALUE(name, unit, value, doc) *out++ = (u64)(value);
#define CC_WATCH(list, ...)                                                                                             \
	static const struct cc_watched cc_watched[] = { list(CC_WATCH_ROW) };                                               \
	_Static_assert(sizeof(cc_watched) / sizeof(*cc_watched) <= MAX_WATCHED, "too many watched values");                 \
	static void cc_watch_read(struct sock *sk, u64 *out)                                                                \
	{                                                                                                                   \
		__VA_ARGS__;                                                                                                    \
		list(CC_WATCH_VALUE)                                                                                            \
	}                                                                                                                   \
	static const struct cc_watch cc_watch = {                                                                           \
		.values = cc_watched,                                                                                           \
		.count = sizeof(cc_watched) / sizeof(*cc_watched),                                                              \
		.read = cc_watch_read,                                                                                          \
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
		.watch = &cc_watch,                                                                                             \
	};                                                                                                                  \
	CC_EXPORT(id)

#endif
