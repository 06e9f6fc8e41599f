/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BBR: the long-term bandwidth of a path with a token-bucket policer.
 *
 * Between losses that are 4 to 16 rounds apart the delivery rate is averaged. Two such rates in a row that agree are the
 * policer's: the sender then holds their mean instead of probing, and looks again after 48 rounds.
 */
#ifndef PERIGEE_BBR_POLICER_H
#define PERIGEE_BBR_POLICER_H

#include "bbr/model.h"

/* Policers: an interval is 4 to 16 rounds and begins and ends with a loss; 50/256 of its packets are lost; */
#define LT_ROUNDS_MIN 4
#define LT_ROUNDS_MAX (4 * LT_ROUNDS_MIN)
#define LT_LOSS 50
/* two in a row agree within 1/8 or 4 kbit/s; then that rate holds for 48 rounds. */
#define LT_RATIO (GAIN_ONE / 8)
#define LT_DIFFERENCE (4000 / 8)
#define LT_USE_ROUNDS 48

static void next_phase(struct sock *sk, struct bbr *b)
{
	b->phase = (b->phase + 1) % CYCLE_PHASES;
	b->cycle_stamp_us = tcp_sk(sk)->delivered_mstamp;
}

/* The cycle starts anywhere but in the draining phase, which is number 1. */
static void enter_probe_bw(struct sock *sk, struct bbr *b)
{
	u32 offset = (u32)((u64)random_u32(sk) * (CYCLE_PHASES - 1) >> 32);

	b->mode = PROBE_BW;
	b->phase = CYCLE_PHASES - 1 - offset;
	next_phase(sk, b);
}

static void lt_start_interval(struct sock *sk, struct bbr *b)
{
	struct tcp_sock *tp = tcp_sk(sk);

	b->lt_stamp = (u32)(tp->delivered_mstamp / USEC_PER_MSEC);
	b->lt_delivered = tp->delivered;
	b->lt_lost = tp->lost;
	b->lt_rounds = 0;
}

static void lt_reset(struct sock *sk, struct bbr *b)
{
	b->lt_bw = 0;
	b->lt_use = 0;
	b->lt_sampling = 0;
	lt_start_interval(sk, b);
}

static void lt_end_interval(struct sock *sk, struct bbr *b, u32 bw)
{
	u32 difference = bw > b->lt_bw ? bw - b->lt_bw : b->lt_bw - bw;

	if (b->lt_bw && ((u64)difference * GAIN_ONE <= (u64)LT_RATIO * b->lt_bw ||
			 bytes_per_second(sk, difference, GAIN_ONE) <= LT_DIFFERENCE)) {
		b->lt_bw = (u32)(((u64)bw + b->lt_bw) >> 1);
		b->lt_use = 1;
		b->pacing_gain = GAIN_ONE;
		b->lt_rounds = 0;
		return;
	}
	b->lt_bw = bw;
	lt_start_interval(sk, b);
}

static void lt_sample(struct sock *sk, struct bbr *b, s32 losses, bool app_limited)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 lost, delivered, ms;

	if (b->lt_use) {
		if (b->mode == PROBE_BW && b->round_start && ++b->lt_rounds >= LT_USE_ROUNDS) {
			lt_reset(sk, b);
			enter_probe_bw(sk, b);
		}
		return;
	}
	if (!b->lt_sampling) {
		if (losses == 0)
			return;
		lt_start_interval(sk, b);
		b->lt_sampling = 1;
	}
	if (app_limited) {
		lt_reset(sk, b);
		return;
	}
	if (b->round_start)
		b->lt_rounds++;
	if (b->lt_rounds < LT_ROUNDS_MIN)
		return;
	if (b->lt_rounds > LT_ROUNDS_MAX) {
		lt_reset(sk, b);
		return;
	}
	if (losses == 0)
		return;
	lost = tp->lost - b->lt_lost;
	delivered = tp->delivered - b->lt_delivered;
	if (delivered == 0 || (u64)lost << GAIN_SHIFT < (u64)LT_LOSS * delivered)
		return;
	ms = (u32)(tp->delivered_mstamp / USEC_PER_MSEC) - b->lt_stamp;
	if ((s32)ms < 1)
		return;
	if (ms >= ~0U / USEC_PER_MSEC) {
		lt_reset(sk, b);
		return;
	}
	lt_end_interval(sk, b, (u32)min64(((u64)delivered << BW_SHIFT) / (ms * USEC_PER_MSEC), BW_MAX));
}

#endif
