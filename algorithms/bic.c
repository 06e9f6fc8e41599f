// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * BIC: binary search for the window at which the last loss happened, and beyond it probing that speeds up.
 *
 * Xu, Harfoush, Rhee: "Binary Increase Congestion Control (BIC) for Fast Long-Distance Networks", INFOCOM 2004.
 *
 * Differences from the paper (as Linux):
 *  - the search goes a quarter of the way to the maximum per round trip (paper: half), S_max is 16 packets (32); the
 *    last packets before the maximum, and the first ones beyond it, take five round trips each
 *  - a loss keeps 819/1024 (paper: 7/8)
 *  - while no loss has shown where the maximum lies the window grows by 5 % per round trip at least
 *  - growth is multiplied by the packets that an ACK covers on average, though growth counts packets: this mean begins at
 *    two and in whole sixteenths does not fall below 31/16, so that all increments are about twice those named here
 *  - the search is renewed when the window changed or 1/32 s passed; a timeout forgets the maximum
 *  - slow start has no threshold of its own; the parameter `initial_ssthresh` sets one (100 in early versions of Linux)
 * Differences from Linux: its clock ticks at 1 kHz, unless the host has a tick; counts saturate where Linux's overflow, above 50 million packets.
 *
 * Units: packets; `last_time` in ms; `delayed_ack` in packets per ACK << 4.
 */
#include "tcp.h"
#include "slow_start/parameters.h"

#define PARAMETERS(P)                                                                                                   \
	P(beta, "1/1024", 819, 512, 1023, "window kept on a loss")                                                          \
	P(low_window, "packets", 14, 0, 1000000, "largest window at which it is Reno")                                      \
	P(max_increment, "packets", 16, 1, 1000000, "S_max: most packets per round trip")                                   \
	P(smooth_part, "1", 20, 1, 1000, "quarters of round trips for a packet next to the maximum")                        \
	P(fast_convergence, "switch", 1, 0, 1, "release bandwidth when the maximum shrinks")                                \
	P(initial_ssthresh, "packets", 0, 0, 1000000000, "first slow start threshold; 0: none")                             \
	SLOW_START_PARAMETERS(P, SLOW_START_CLASSIC)
CC_PARAMETERS(PARAMETERS)

#include "slow_start/state.h"

CC_STORAGE(struct slow_start)
#include "slow_start/slow_start.h"

/* The search goes 1/SEARCH of the distance. */
#define SEARCH 4
#define BETA_ONE 1024
/* Growth while the maximum is unknown: one packet per 20, 5 % per RTT. */
#define UNKNOWN_MAX_COUNT 20
/* Search anew after this long at a constant window, ms: 1/32 s. */
#define REFRESH_MS 31
#define RATIO_SHIFT 4

struct bic {
	u32 count;       /* ACKed packets per packet of growth */
	u32 w_max;       /* window at the last loss; 0: none yet */
	u32 last_cwnd;
	u32 last_time;
	u32 delayed_ack; /* packets per ACK << 4, mean */
};
CC_STATE(struct bic);

static void forget(struct bic *ca)
{
	*ca = (struct bic){ .delayed_ack = 2 << RATIO_SHIFT };
}

CC_CALLBACK(void, bic_init, struct sock *sk)
{
	u32 threshold = (u32)param(sk, initial_ssthresh);

	forget(inet_csk_ca(sk));
	slow_start_init(sk);
	if (threshold)
		tcp_sk(sk)->snd_ssthresh = max32(threshold, 2);
}

/* Below the maximum: towards it by a quarter of the distance, at most S_max. */
static u64 search_count(u64 cwnd, u64 distance, u64 max_increment, u64 smooth_part)
{
	u64 step = distance / SEARCH;

	if (step > max_increment)
		return cwnd / max_increment;
	if (step <= 1)
		return cwnd * smooth_part / SEARCH;
	return cwnd / step;
}

/* Beyond it: away from it in mirrored steps, up to S_max. */
static u64 probe_count(u64 cwnd, u64 distance, u64 max_increment, u64 smooth_part)
{
	if (distance < SEARCH)
		return cwnd * smooth_part / SEARCH;
	if (distance < max_increment * (SEARCH - 1))
		return cwnd * (SEARCH - 1) / distance;
	return cwnd / max_increment;
}

static void update(struct sock *sk, struct bic *ca, u32 cwnd)
{
	u64 max_increment = max64(param(sk, max_increment), 1), smooth_part = param(sk, smooth_part), count;
	u32 now = jiffies_ms(sk);

	if (ca->last_cwnd == cwnd && (s32)(now - ca->last_time) <= REFRESH_MS)
		return;
	ca->last_cwnd = cwnd;
	ca->last_time = now;
	if (cwnd <= (u32)param(sk, low_window)) {
		ca->count = cwnd;
		return;
	}
	if (cwnd < ca->w_max)
		count = search_count(cwnd, ca->w_max - cwnd, max_increment, smooth_part);
	else
		count = probe_count(cwnd, cwnd - ca->w_max, max_increment, smooth_part);
	if (ca->w_max == 0)
		count = min64(count, UNKNOWN_MAX_COUNT);
	count = (count << RATIO_SHIFT) / max32(ca->delayed_ack, 1);
	ca->count = (u32)min64(max64(count, 1), ~0U);
}

CC_CALLBACK(void, bic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic *ca = inet_csk_ca(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = slow_start_grow(sk, acked);
		if (acked == 0)
			return;
	}
	update(sk, ca, tp->snd_cwnd);
	tcp_cong_avoid_ai(tp, ca->count, acked);
}

CC_CALLBACK(u32, bic_ssthresh, struct sock *sk)
{
	struct bic *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd, beta = (u32)param(sk, beta);

	if (cwnd < ca->w_max && param(sk, fast_convergence))
		ca->w_max = (u32)((u64)cwnd * (BETA_ONE + beta) / (2 * BETA_ONE));
	else
		ca->w_max = cwnd;
	if (cwnd <= (u32)param(sk, low_window))
		return slow_start_reduce(sk, max32(cwnd / 2, 2));
	return slow_start_reduce(sk, max32((u32)((u64)cwnd * beta / BETA_ONE), 2));
}

CC_CALLBACK(void, bic_set_state, struct sock *sk, u8 new_state)
{
	if (new_state != TCP_CA_Loss)
		return;
	forget(inet_csk_ca(sk));
	slow_start_timeout(sk);
}

CC_CALLBACK(void, bic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bic *ca = inet_csk_ca(sk);

	slow_start_acked(sk, sample);
	if (ca_state(sk) == TCP_CA_Open)
		ca->delayed_ack += sample->pkts_acked - (ca->delayed_ack >> RATIO_SHIFT);
}

CC_CALLBACK(u32, bic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(bic, "BIC, Xu, Harfoush and Rhee 2004", PARAMETERS,
	.init = OP(bic_init),
	.ssthresh = OP(bic_ssthresh),
	.cong_avoid = OP(bic_cong_avoid),
	.set_state = OP(bic_set_state),
	.pkts_acked = OP(bic_pkts_acked),
	.undo_cwnd = OP(bic_undo_cwnd))
