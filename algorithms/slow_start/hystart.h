/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * HyStart: slow start ends when ACKs or round trips show that the path is full, before a loss does.
 *
 * Ha, Rhee: "Taming the elephants: New TCP slow start", 2011, with Linux's margins. It begins anew after a timeout. For
 * Hybla: the end alone; growth stays 2^rho - 1 per ACK. CUBIC has parameters for the two exits and the least window,
 * other algorithms CUBIC's defaults.
 */
#ifndef PERIGEE_SLOW_START_HYSTART_H
#define PERIGEE_SLOW_START_HYSTART_H

#include "slow_start/state.h"

#ifndef HYSTART_ACK_TRAIN
#define HYSTART_ACK_TRAIN(sk) true
#define HYSTART_DELAY(sk) true
#define HYSTART_LOW_WINDOW(sk) 16U
#endif

/* Round trips per round, and ACKs this close to each other are one train. */
#define HYSTART_SAMPLES 8
#define HYSTART_TRAIN_GAP_US 2000

/* Bursts of the sender's segmentation offload stretch a train: four of them, at most 1 ms. */
static inline u32 burst_allowance_us(struct sock *sk)
{
	u64 rate = sk->sk_pacing_rate;

	return rate == 0 ? 0 : (u32)min64((u64)sk->sk_gso_max_size * 4 * USEC_PER_SEC / rate, USEC_PER_MSEC);
}

/* A train of closely spaced ACKs that is longer than the one-way delay: the window fills the path. */
static inline bool train_fills_path(struct sock *sk, struct slow_start *ss)
{
	u32 now = slow_start_clock(sk), limit = ss->rtt_min + burst_allowance_us(sk);

	if ((s32)(now - ss->last_ack) > HYSTART_TRAIN_GAP_US)
		return false;
	ss->last_ack = now;
	/* Pacing in slow start spreads a window over half a round trip by itself. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		limit /= 2;
	return now - ss->round_start > limit;
}

/* The least round trip of this round is above the least ever by eta: there is a queue. */
static inline bool delay_has_grown(struct slow_start *ss, u32 delay)
{
	ss->round_rtt = min32(ss->round_rtt, delay);
	if (ss->samples < HYSTART_SAMPLES) {
		ss->samples++;
		return false;
	}
	return ss->round_rtt > ss->rtt_min + slow_start_eta(ss->rtt_min);
}

static inline void hystart(struct sock *sk, struct slow_start *ss, u32 delay)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool found = false;

	if (before(ss->round_end, tp->snd_una))
		slow_start_round(sk, ss);
	if (tp->snd_cwnd < HYSTART_LOW_WINDOW(sk))
		return;
	if (HYSTART_ACK_TRAIN(sk))
		found |= train_fills_path(sk, ss);
	if (HYSTART_DELAY(sk))
		found |= delay_has_grown(ss, delay);
	if (found)
		slow_start_end(sk, ss);
}

#endif
