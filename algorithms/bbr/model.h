/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BBR: the state, and the quantities of the path's model: bandwidth, inflight, bursts.
 *
 * Units: see bbr.c.
 */
#ifndef PERIGEE_BBR_MODEL_H
#define PERIGEE_BBR_MODEL_H

#include "windowed_max.h"

#define BW_SHIFT 24
#define BW_ONE (1U << BW_SHIFT)
#define BW_MAX (64U << BW_SHIFT)
#define GAIN_SHIFT 8
#define GAIN_ONE (1U << GAIN_SHIFT)
/* 2 / ln 2: the least gain that doubles the rate each round, and its inverse. */
#define HIGH_GAIN (GAIN_ONE * 2885 / 1000 + 1)
#define DRAIN_GAIN (GAIN_ONE * 1000 / 2885)
#define CWND_GAIN (GAIN_ONE * 2)
#define CYCLE_PHASES 8
/* Max filter of the bandwidth: rounds. */
#define BW_WINDOW_ROUNDS (CYCLE_PHASES + 2)
#define MIN_WINDOW 4
#define INITIAL_WINDOW 10
#define PACING_PERCENT 99
/* Below 1.2 Mbit/s, bytes/s: one packet per burst. */
#define SINGLE_PACKET_RATE (1200000 >> 3)
/* Largest burst of segmentation offload: 64 KiB less headers. */
#define BURST_BYTES_MAX (65536U - 1 - 320)
#define BURST_SEGS_MAX 0x7f

enum { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };

struct bbr {
	u64 cycle_stamp_us;
	u64 epoch_stamp_us;      /* ACK aggregation */
	u32 min_rtt_us;
	u32 min_rtt_stamp;
	u32 probe_rtt_end;       /* 0: not yet at four packets */
	struct windowed_max bw; /* over rounds */
	u32 round;
	u32 round_end;           /* `delivered` that ends the round */
	u32 prior_cwnd;
	u32 full_bw;
	u32 lt_bw;
	u32 lt_delivered;
	u32 lt_stamp;
	u32 lt_lost;
	u32 epoch_acked;
	u16 extra_now;           /* packets, this window of rounds */
	u16 extra_before;        /* and the one before */
	u16 pacing_gain;
	u16 cwnd_gain;
	u8 mode;
	u8 prev_ca_state;
	u8 phase;
	u8 full_bw_count;
	u8 lt_rounds;
	u8 extra_rounds;
	u8 packet_conservation : 1, round_start : 1, idle_restart : 1, probe_rtt_round_done : 1,
		lt_sampling : 1, lt_use : 1, full_pipe : 1, has_seen_rtt : 1;
};
CC_STATE(struct bbr);

static u32 model_bw(const struct bbr *b)
{
	return b->lt_use ? b->lt_bw : b->bw.best.value;
}

/* packets/us to bytes/s at a gain, less the margin. */
static u64 bytes_per_second(struct sock *sk, u64 bw, u32 gain)
{
	u64 rate = bw * tcp_sk(sk)->mss_cache * gain >> GAIN_SHIFT, per_second = USEC_PER_SEC / 100 * PACING_PERCENT;

	if (rate < 1ULL << 40)
		return rate * per_second >> BW_SHIFT;
	return (rate >> BW_SHIFT / 2) * per_second >> BW_SHIFT / 2;
}

static u32 min_burst(struct sock *sk)
{
	return sk->sk_pacing_rate < SINGLE_PACKET_RATE ? 1 : 2;
}

/* Packets the host sends at once at this rate. */
static u32 burst_goal(struct sock *sk)
{
	u64 bytes = min64(sk->sk_pacing_rate >> sk->sk_pacing_shift, BURST_BYTES_MAX);
	u32 segs = (u32)bytes / max32(tcp_sk(sk)->mss_cache, 1);

	return min32(max32(segs, min_burst(sk)), BURST_SEGS_MAX);
}

static u32 bdp(const struct bbr *b, u32 bw, u32 gain)
{
	u64 product = (u64)bw * b->min_rtt_us;

	if (b->min_rtt_us == ~0U)
		return INITIAL_WINDOW;
	product = product < 1ULL << 52 ? product * gain >> GAIN_SHIFT : (product >> GAIN_SHIFT) * gain;
	return (u32)min64((product + BW_ONE - 1) >> BW_SHIFT, TCP_INFINITE_SSTHRESH);
}

/* Room for bursts at sender, network and receiver, for delayed ACKs (even), and for the probing phase. */
static u32 with_bursts(struct sock *sk, const struct bbr *b, u32 cwnd)
{
	cwnd = (cwnd + 3 * burst_goal(sk) + 1) & ~1U;
	return b->mode == PROBE_BW && b->phase == 0 ? cwnd + 2 : cwnd;
}

static u32 inflight_at(struct sock *sk, const struct bbr *b, u32 gain)
{
	return with_bursts(sk, b, bdp(b, b->bw.best.value, gain));
}

/* The part of `inflight` that is still in the network when the next packet may leave. */
static u32 inflight_at_departure(struct sock *sk, const struct bbr *b, u32 inflight)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 now = tp->tcp_clock_cache, wait_us = (max64(tp->tcp_wstamp_ns, now) - now) / NSEC_PER_USEC;
	u64 delivered = (u64)model_bw(b) * min64(wait_us, ~0U) >> BW_SHIFT;

	if (b->pacing_gain > GAIN_ONE)
		inflight += burst_goal(sk);
	return delivered >= inflight ? 0 : inflight - (u32)delivered;
}

#endif
