// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SICC, Space Internet Congestion Control: CUBIC that tells a link's periodic losses from congestion.
 *
 * Pawirotaroeno: "Space Internet Congestion Control", MSc thesis, University of Twente, 2022.
 *
 * A constellation in low orbit hands its users over all at once, every 15 s: what is lost then says nothing about
 * congestion. Each loss is compared with the times of earlier ones, newest first, and the first that matches decides:
 *
 *   a period before:        periodic,   beta 1    window and growth go on
 *   less than 2 s before:   congestion, beta 0.7
 *   none matches:           random,     beta 0.9
 *
 * That is the thesis's pseudocode. Its equation decides otherwise, and is the other value of `rule`: periodic where any
 * is a period before, else congestion where any is one second before (the last second within `burst`), else random.
 *
 * Differences from the thesis:
 *  - times are us since the connection's start in 64 bits, which never wrap, cut to whole seconds where they are compared
 *    as the thesis cuts jiffies. That makes a period of 15 s anything from 14 to 16 s; `whole_seconds` off compares the
 *    times themselves, within `tolerance`
 *  - the number of times remembered is `memory`
 *  - a timeout is an event like others; its threshold is that of its kind, and growth begins anew as cubic's
 *  - CUBIC and HyStart are those of cubic.c, with its differences; friendliness assumes the beta of congestion
 *  - what a periodic loss does to the epoch is not said: it goes on, or with `periodic_growth` begins anew at this window
 *  - an undo restores the larger of W_max and the window, as the thesis' functions do, or with `undo` the window before the
 *    reduction, as Linux does today; a timeout forgets W_max, so that its undo restores nothing with the first
 * A periodic loss in slow start ends it, at the window that is reached: the host needs a threshold for its recovery.
 *
 * Units: windows in packets, times in us unless said otherwise.
 */
#include "tcp.h"
#include "cubic/parameters.h"
#include "slow_start/state.h"

#define PARAMETERS(P)                                                                                                   \
	P(period, "us", 15000000, 1000000, 600000000, "time between losses that the link itself causes")                    \
	P(tolerance, "us", 0, 0, 10000000, "a period may be longer or shorter by this")                                     \
	P(whole_seconds, "switch", 1, 0, 1, "compare times cut to whole seconds")                                           \
	P(burst, "us", 2000000, 0, 60000000, "losses closer than this are congestion")                                      \
	P(rule, "pseudocode|equation", 0, 0, 1, "which of the thesis's two rules compares the times")                       \
	P(memory, "1", 16, 1, 32, "events remembered")                                                                      \
	P(beta_periodic, "1/1024", 1024, 512, 1024, "window kept on a periodic loss; all of it: growth is kept too")        \
	P(periodic_growth, "continues|restarts", 0, 0, 1, "whether growth goes on after a periodic loss, or from its window")  \
	P(beta_congestion, "1/1024", 717, 512, 1023, "window kept on congestion")                                           \
	P(beta_random, "1/1024", 922, 512, 1024, "window kept on a single loss")                                            \
	P(undo, "largest|before", 0, 0, 1, "what an undo restores: W_max, or the window before the reduction")                \
	CUBIC_PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

#define MEMORY_MAX 32U

/* Retransmission events: a ring of their times. */
struct history {
	struct slow_start slow_start; /* first */
	u64 start_us;
	u64 time_us[MEMORY_MAX]; /* since the start */
	u32 count; /* of all events so far */
};
CC_STORAGE(struct history)
#include "cubic/growth.h"

CC_STATE(struct cubic);

enum { PERIODIC, CONGESTION, RANDOM };
enum { PSEUDOCODE, EQUATION };
enum { CONTINUES, RESTARTS };
enum { LARGEST, BEFORE };

static u64 on_scale(struct sock *sk, u64 time_us)
{
	return param(sk, whole_seconds) ? time_us / USEC_PER_SEC * USEC_PER_SEC : time_us;
}

static u8 classify(struct sock *sk, const struct history *h, u64 time_us)
{
	u64 now = on_scale(sk, time_us), period = param(sk, period), tolerance = param(sk, tolerance);
	u32 known = min32(h->count, (u32)param(sk, memory));
	u64 burst = param(sk, burst);
	bool equation = param(sk, rule) == EQUATION;
	u8 found = RANDOM;

	for (u32 i = 0; i < MEMORY_MAX; i++) {
		u64 age;

		if (i >= known)
			break;
		age = now - on_scale(sk, h->time_us[(h->count - 1 - i) % MEMORY_MAX]);
		if (age + tolerance >= period && age <= period + tolerance)
			return PERIODIC;
		if (age >= burst)
			continue;
		if (!equation)
			return CONGESTION;
		if (age + USEC_PER_SEC >= burst)
			found = CONGESTION;
	}
	return found;
}

static u8 remember(struct sock *sk, struct history *h)
{
	u64 time_us = tcp_sk(sk)->tcp_mstamp - h->start_us;
	u8 found = classify(sk, h, time_us);

	h->time_us[h->count % MEMORY_MAX] = time_us;
	/* The ring is full long before the count wraps, and stays so. */
	h->count = h->count + 1 ? h->count + 1 : MEMORY_MAX;
	return found;
}

CC_CALLBACK(void, sicc_init, struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);
	struct history *h = cc_storage(sk);

	*ca = (struct cubic){ 0 };
	if (h)
		*h = (struct history){ .start_us = tcp_sk(sk)->tcp_mstamp };
	slow_start_init(sk);
}

CC_CALLBACK(void, sicc_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	cubic_grow(sk, inet_csk_ca(sk), acked, (u32)param(sk, beta_congestion));
}

CC_CALLBACK(u32, sicc_ssthresh, struct sock *sk)
{
	struct history *h = cc_storage(sk);
	u32 beta = (u32)param(sk, beta_congestion);

	if (h) {
		u8 found = remember(sk, h);

		if (found == PERIODIC)
			beta = (u32)param(sk, beta_periodic);
		else if (found == RANDOM)
			beta = (u32)param(sk, beta_random);
	}
	if (beta == BETA_ONE && param(sk, periodic_growth) == CONTINUES)
		return max32(tcp_sk(sk)->snd_cwnd, 2);
	return cubic_reduce(sk, inet_csk_ca(sk), beta);
}

CC_CALLBACK(void, sicc_set_state, struct sock *sk, u8 new_state)
{
	struct cubic *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	*ca = (struct cubic){ 0 };
	slow_start_timeout(sk);
}

CC_CALLBACK(void, sicc_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	cubic_idle(sk, inet_csk_ca(sk), event);
}

CC_CALLBACK(void, sicc_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubic_sample(sk, inet_csk_ca(sk), sample);
}

CC_CALLBACK(u32, sicc_undo_cwnd, struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);

	return param(sk, undo) == BEFORE ? tcp_reno_undo_cwnd(sk) : max32(tcp_sk(sk)->snd_cwnd, ca->w_max);
}

CC_REGISTER(sicc, "Space Internet Congestion Control, Pawirotaroeno 2022", PARAMETERS,
	.init = OP(sicc_init),
	.ssthresh = OP(sicc_ssthresh),
	.cong_avoid = OP(sicc_cong_avoid),
	.set_state = OP(sicc_set_state),
	.cwnd_event = OP(sicc_cwnd_event),
	.pkts_acked = OP(sicc_pkts_acked),
	.undo_cwnd = OP(sicc_undo_cwnd))
