/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * HyStart: slow start ends when ACKs or round trips show that the path is full, before a loss does.
 *
 * Ha, Rhee: "Taming the elephants: New TCP slow start", 2011, with Linux's margins. Units: see cubic.c.
 */
#ifndef PERIGEE_CUBIC_HYSTART_H
#define PERIGEE_CUBIC_HYSTART_H

#include "cubic/growth.h"

/* HyStart: round trips per round, and ACKs this close to each other are one train. */
#define HYSTART_SAMPLES 8
#define HYSTART_TRAIN_GAP_US 2000
/* eta = clamp(RTTmin / 8, 4 ms, 16 ms) */
#define HYSTART_ETA_MIN_US 4000U
#define HYSTART_ETA_MAX_US 16000U

/* Bursts of the sender's segmentation offload stretch a train: four of them, at most 1 ms. */
static u32 burst_allowance_us(struct sock *sk)
{
	u64 rate = sk->sk_pacing_rate;

	return rate == 0 ? 0 : (u32)min64((u64)sk->sk_gso_max_size * 4 * USEC_PER_SEC / rate, USEC_PER_MSEC);
}

/* A train of closely spaced ACKs that is longer than the one-way delay: the window fills the path. */
static bool train_fills_path(struct sock *sk, struct cubic *ca)
{
	u32 now = clock_us(sk), limit = ca->delay_min + burst_allowance_us(sk);

	if ((s32)(now - ca->last_ack) > HYSTART_TRAIN_GAP_US)
		return false;
	ca->last_ack = now;
	/* Pacing in slow start spreads a window over half a round trip by itself. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		limit /= 2;
	return now - ca->round_start > limit;
}

/* The least round trip of this round is above the least ever by eta: there is a queue. */
static bool delay_has_grown(struct cubic *ca, u32 delay)
{
	u32 eta = clamp32(ca->delay_min / 8, HYSTART_ETA_MIN_US, HYSTART_ETA_MAX_US);

	ca->round_rtt = min32(ca->round_rtt, delay);
	if (ca->samples < HYSTART_SAMPLES) {
		ca->samples++;
		return false;
	}
	return ca->round_rtt > ca->delay_min + eta;
}

static void hystart(struct sock *sk, struct cubic *ca, u32 delay)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool found = false;

	if (before(ca->round_end, tp->snd_una))
		start_round(sk, ca);
	if (tp->snd_cwnd < (u32)param(sk, low_window))
		return;
	if (param(sk, ack_train))
		found |= train_fills_path(sk, ca);
	if (param(sk, delay))
		found |= delay_has_grown(ca, delay);
	if (found) {
		ca->exit_found = 1;
		tp->snd_ssthresh = tp->snd_cwnd;
	}
}

/* A round trip was measured, us, or -1: the least one, and HyStart. */
static void cubic_sample(struct sock *sk, struct cubic *ca, s32 rtt_us)
{
	u32 delay;

	if (rtt_us < 0)
		return;
	/* Right after a reduction the queue is still what it was. */
	if (ca->epoch_start && now_ms(sk) - ca->epoch_start < AFTER_EPOCH_MS)
		return;
	delay = max32((u32)rtt_us, 1);
	if (ca->delay_min == 0 || delay < ca->delay_min)
		ca->delay_min = delay;
	if (!ca->exit_found && param(sk, hystart) && tcp_in_slow_start(tcp_sk(sk)))
		hystart(sk, ca, delay);
}

#endif
