/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CUBIC's growth: the window as a cubic function of the time since the last reduction, never slower than Reno's.
 *
 * Differences from RFC 9438, and units: see cubic.c. A file that includes this declares CUBIC_PARAMETERS(P) and its
 * storage first, zeroes struct cubic at the beginning, and defines the reduction after a loss.
 */
#ifndef PERIGEE_CUBIC_GROWTH_H
#define PERIGEE_CUBIC_GROWTH_H

#include "tcp.h"
#include "slow_start/slow_start.h"

/* C = 410 / 1024 = 0.4 packets/s^3 (RFC 9438, 5.1). */
#define CUBIC_C 410
#define CUBIC_C_SHIFT 10
/* Time within the cubic function: 1024 per second. */
#define TICK_SHIFT 10
#define BETA_ONE 1024
/* Longest |t - K|: 256 s, so that C * t^3 fits 64 bits. */
#define OFFSET_MAX (256U << TICK_SHIFT)
/* Parameters that cubic.c has: most packets per second beyond the plateau, 0: no limit; thousandths per round trip at the
 * least while the maximum is unknown. */
#ifndef CUBIC_GROWTH_LIMIT
#define CUBIC_GROWTH_LIMIT(sk) 0U
#define CUBIC_FIRST_GROWTH(sk) 50U
#endif
/* Recompute W_cubic after this long at a constant window, ms: 1/32 s. */
#define REFRESH_MS 31
#define AFTER_EPOCH_MS 1000

struct cubic {
	u32 count;      /* ACKed packets per packet of growth */
	u32 w_max;      /* window before the last reduction; 0: no loss yet */
	u32 last_cwnd;
	u32 last_time;
	u32 origin;     /* plateau of this epoch */
	u32 k;
	u32 delay_min;  /* us; 0: none */
	u32 epoch_start; /* 0: the next ACK starts one */
	u32 acked;      /* packets not yet credited to the friendly window */
	u32 w_est;      /* the friendly window */
};

/* Largest r with r^3 <= x, digit by digit: r gains 2^i where (r + 2^i)^3 still fits. */
CC_FUNCTION u32 cube_root(u64 x)
{
	u64 root = 0;

	for (int i = 20; i >= 0; i--) {
		u64 next = root | (1ULL << i);

		if (next * next * next <= x)
			root = next;
	}
	return (u32)root;
}

/* RFC 9438, figure 2: K = cbrt((W_max - cwnd) / C), here in ticks: cbrt(2^30 (W_max - cwnd) 2^10 / 410). */
static u32 time_to_plateau(u32 distance)
{
	return cube_root((1ULL << (CUBIC_C_SHIFT + 3 * TICK_SHIFT)) / CUBIC_C * distance);
}

/* RFC 9438, figure 1: W_cubic(t) = C (t - K)^3 + W_max. */
static u32 w_cubic(const struct cubic *ca, u64 t)
{
	u64 offset = min64(t < ca->k ? ca->k - t : t - ca->k, OFFSET_MAX);
	u64 delta = CUBIC_C * offset * offset * offset >> (CUBIC_C_SHIFT + 3 * TICK_SHIFT);

	if (t < ca->k)
		return ca->origin - (u32)min64(delta, ca->origin);
	return ca->origin + (u32)delta;
}

/* The count of a growth of `limit` packets per second: cwnd packets are acknowledged per round trip. */
CC_FUNCTION u32 count_of_limit(u32 cwnd, u32 limit, u32 rtt_us)
{
	return (u32)min64((u64)cwnd * USEC_PER_SEC / max64((u64)limit * rtt_us, 1), ~0U);
}

/* The cubic function's wish, as ACKed packets per packet of growth. */
static u32 cubic_count(struct sock *sk, struct cubic *ca, u32 cwnd, u32 now)
{
	u32 delay_ms = us_to_jiffies_ms(sk, ca->delay_min);
	u64 t = (((u64)(now - ca->epoch_start) + delay_ms) << TICK_SHIFT) / 1000;
	u32 target = w_cubic(ca, t), count = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
	u32 limit = CUBIC_GROWTH_LIMIT(sk);

	if (limit && ca->delay_min && t >= ca->k)
		count = max32(count, count_of_limit(cwnd, limit, ca->delay_min));
	return ca->w_max == 0 ? min32(count, 1000 / max32(CUBIC_FIRST_GROWTH(sk), 1)) : count;
}

/* RFC 9438, 4.3: W_est grows by 3 (1 - beta) / (1 + beta) per RTT, thus by one per `per_packet` ACKed packets. */
static u32 friendly_count(struct cubic *ca, u32 cwnd, u32 beta)
{
	u32 scale = 8 * (BETA_ONE + beta) / 3 / (BETA_ONE - beta);
	u32 per_packet = max32((u32)((u64)cwnd * scale >> 3), 1);

	if (ca->acked > per_packet) {
		u32 steps = (ca->acked - 1) / per_packet;

		ca->acked -= steps * per_packet;
		ca->w_est += steps;
	}
	return ca->w_est > cwnd ? cwnd / (ca->w_est - cwnd) : ~0U;
}

static void start_epoch(struct cubic *ca, u32 cwnd, u32 acked, u32 now)
{
	/* Zero means none. */
	ca->epoch_start = now ? now : 1;
	ca->acked = acked;
	ca->w_est = cwnd;
	ca->origin = max32(ca->w_max, cwnd);
	ca->k = ca->w_max > cwnd ? time_to_plateau(ca->w_max - cwnd) : 0;
}

static void update(struct sock *sk, struct cubic *ca, u32 cwnd, u32 acked, u32 beta)
{
	u32 now = jiffies_ms(sk);

	ca->acked += acked;
	if (ca->last_cwnd == cwnd && now - ca->last_time <= REFRESH_MS)
		return;
	if (ca->epoch_start == 0 || now != ca->last_time) {
		ca->last_cwnd = cwnd;
		ca->last_time = now;
		if (ca->epoch_start == 0)
			start_epoch(ca, cwnd, acked, now);
		ca->count = cubic_count(sk, ca, cwnd, now);
	}
	if (param(sk, tcp_friendliness))
		ca->count = min32(ca->count, friendly_count(ca, cwnd, beta));
	ca->count = max32(ca->count, 2);
}

/* The window after these packets were acknowledged; beta is what a loss usually keeps. */
static void cubic_grow(struct sock *sk, struct cubic *ca, u32 acked, u32 beta)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = slow_start_grow(sk, acked);
		if (acked == 0)
			return;
	}
	update(sk, ca, tp->snd_cwnd, acked, beta);
	tcp_cong_avoid_ai(tp, ca->count, acked);
}

/* RFC 9438, 4.6 and 4.7: reduce by beta, remember the maximum, a little less where it shrinks. */
static u32 cubic_reduce(struct sock *sk, struct cubic *ca, u32 beta)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	ca->epoch_start = 0;
	if (cwnd < ca->w_max && param(sk, fast_convergence))
		ca->w_max = (u32)((u64)cwnd * (BETA_ONE + beta) / (2 * BETA_ONE));
	else
		ca->w_max = cwnd;
	return slow_start_reduce(sk, max32((u32)((u64)cwnd * beta / BETA_ONE), 2));
}

/* Packets were acknowledged: the least round trip, and slow start. */
static void cubic_sample(struct sock *sk, struct cubic *ca, const struct ack_sample *sample)
{
	u32 delay = max32((u32)sample->rtt_us, 1);

	/* Right after a reduction the queue is still what it was. */
	if (ca->epoch_start && jiffies_ms(sk) - ca->epoch_start < AFTER_EPOCH_MS)
		return;
	if (sample->rtt_us >= 0 && (ca->delay_min == 0 || delay < ca->delay_min))
		ca->delay_min = delay;
	slow_start_acked(sk, sample);
}

/* RFC 9438, 5.8: time without data to send is no time to grow in. */
static void cubic_idle(struct sock *sk, struct cubic *ca, enum tcp_ca_event event)
{
	u32 now = jiffies_ms(sk), idle;

	if (event != CA_EVENT_TX_START || ca->epoch_start == 0)
		return;
	idle = since_last_send_ms(sk);
	if ((s32)idle <= 0)
		return;
	ca->epoch_start += idle;
	if (before(now, ca->epoch_start))
		ca->epoch_start = now;
	if (ca->epoch_start == 0)
		ca->epoch_start = 1;
}

#endif
