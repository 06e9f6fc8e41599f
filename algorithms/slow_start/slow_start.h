/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Slow start as a part: an algorithm calls these functions, and its parameter `slow_start` says which variant they are.
 *
 *   slow_start_init(sk)           at the beginning
 *   slow_start_acked(sk, sample)  in pkts_acked: rounds, round trips, and the end of slow start
 *   slow_start_grow(sk, acked)    in place of tcp_slow_start()
 *   slow_start_gain(sk)           for an algorithm with a growth of its own: quarters of it
 *   limited_holds(sk)             and whether RFC 3742 bounds it: it grows by limited_grow() then
 *   slow_start_reduce(sk, kept)   in ssthresh, of the window that the algorithm keeps: returns the threshold
 *   slow_start_timeout(sk)        in set_state, for TCP_CA_Loss
 *
 * State lies at the beginning of the socket's storage: CC_STORAGE(struct slow_start), or a struct that begins with one.
 * Where the kernel has no storage for a socket, slow start is classic. So it is when a variant is over. Limited slow start has no state.
 */
#ifndef PERIGEE_SLOW_START_H
#define PERIGEE_SLOW_START_H

#include "slow_start/careful.h"
#include "slow_start/hystart.h"
#include "slow_start/hystart_plus.h"
#include "slow_start/limited.h"
#include "slow_start/rapid.h"
#include "slow_start/search.h"

static inline struct slow_start *slow_start_state(struct sock *sk)
{
	u64 variant = param(sk, slow_start);

	return variant == SLOW_START_CLASSIC || variant == SLOW_START_LIMITED ? NULL : (struct slow_start *)cc_storage(sk);
}

static inline void slow_start_init(struct sock *sk)
{
	struct slow_start *ss = slow_start_state(sk);

	if (!ss)
		return;
	*ss = (struct slow_start){ .round_rtt = ~0U };
	slow_start_round(sk, ss);
}

/* Rapid Start ends with the first recovery. */
static inline void slow_start_recover(struct sock *sk, struct slow_start *ss)
{
	if (ca_state(sk) == TCP_CA_CWR || ca_state(sk) == TCP_CA_Recovery)
		rapid_recover(sk, &ss->rapid);
	else
		ss->rapid.cwnd = 0;
}

static inline void slow_start_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct slow_start *ss = slow_start_state(sk);
	u32 delay;

	if (!ss)
		return;
	if (param(sk, slow_start) == SLOW_START_RAPID && ss->rapid.cwnd)
		slow_start_recover(sk, ss);
	delay = max32((u32)sample->rtt_us, 1);
	if (sample->rtt_us >= 0 && (ss->rtt_min == 0 || delay < ss->rtt_min))
		ss->rtt_min = delay;
	if (param(sk, slow_start) == SLOW_START_CAREFUL) {
		if (!ss->over)
			careful(sk, ss, sample->pkts_acked);
		else
			careful_observe(sk, ss);
		return;
	}
	if (sample->rtt_us < 0 || ss->over || !tcp_in_slow_start(tcp_sk(sk)))
		return;
	if (param(sk, slow_start) == SLOW_START_HYSTART)
		hystart(sk, ss, delay);
	else if (param(sk, slow_start) == SLOW_START_HYSTART_PLUS)
		hystart_plus(sk, ss, delay);
	else if (param(sk, slow_start) == SLOW_START_SEARCH)
		search(sk, ss, delay);
	else
		rapid(sk, ss, delay);
}

/* Quarters of the classic growth, or of the algorithm's own. */
static inline u32 slow_start_gain_of(struct sock *sk, const struct slow_start *ss)
{
	if (ss->over)
		return GAIN_ONE;
	if (param(sk, slow_start) == SLOW_START_HYSTART_PLUS && ss->base_rtt)
		return CSS_GAIN;
	if (param(sk, slow_start) == SLOW_START_SEARCH && ss->search.target)
		return 0;
	if (param(sk, slow_start) == SLOW_START_CAREFUL && ss->careful.phase == CAREFUL_UNVALIDATED)
		return 0;
	return param(sk, slow_start) == SLOW_START_RAPID && rapid_is_fast(ss) ? RAPID_GAIN : GAIN_ONE;
}

static inline u32 slow_start_gain(struct sock *sk)
{
	struct slow_start *ss = slow_start_state(sk);

	return ss ? slow_start_gain_of(sk, ss) : GAIN_ONE;
}

/* Returns the packets not used up, as tcp_slow_start(). */
static inline u32 slow_start_grow(struct sock *sk, u32 acked)
{
	struct slow_start *ss = slow_start_state(sk);
	u32 gain = ss ? slow_start_gain_of(sk, ss) : GAIN_ONE, whole;

	if (limited_holds(sk))
		return limited_grow(sk, acked);
	if (!ss || gain == GAIN_ONE)
		return tcp_slow_start(tcp_sk(sk), acked);
	ss->credit += acked * gain;
	whole = ss->credit / GAIN_ONE;
	ss->credit %= GAIN_ONE;
	if (gain == 0)
		return 0;
	return tcp_slow_start(tcp_sk(sk), whole) * GAIN_ONE / gain;
}

/* Reno's growth, with this slow start. */
static inline void slow_start_reno(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = slow_start_grow(sk, acked);
		if (acked == 0)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/*
 * A loss, after which the algorithm keeps this window. HyStart stays; the others serve the first slow start. Rapid Start
 * and Careful Resume have thresholds of their own.
 */
static inline u32 slow_start_reduce(struct sock *sk, u32 kept)
{
	struct slow_start *ss = slow_start_state(sk);
	bool first = ss && !ss->over;

	if (!ss || param(sk, slow_start) == SLOW_START_HYSTART)
		return kept;
	if (param(sk, slow_start) == SLOW_START_CAREFUL)
		return first ? careful_lose(sk, ss, kept) : kept;
	ss->over = 1;
	if (param(sk, slow_start) == SLOW_START_RAPID && first && tcp_in_slow_start(tcp_sk(sk)))
		return rapid_cut(sk, &ss->rapid, kept);
	return kept;
}

/* HyStart begins anew; the others are over, and Rapid Start's gentle cut is none for a timeout. */
static inline void slow_start_timeout(struct sock *sk)
{
	struct slow_start *ss = slow_start_state(sk);

	if (param(sk, slow_start) == SLOW_START_HYSTART) {
		slow_start_init(sk);
	} else if (param(sk, slow_start) == SLOW_START_RAPID && ss && ss->rapid.cwnd) {
		tcp_sk(sk)->snd_ssthresh = ss->rapid.kept;
		ss->rapid.cwnd = 0;
	} else if (param(sk, slow_start) == SLOW_START_CAREFUL && ss && !ss->over) {
		careful_end(sk, ss);
	}
}

#endif
