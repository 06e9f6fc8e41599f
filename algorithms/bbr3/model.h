/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BBR version 3: the state, and the quantities of the path's model: bandwidth, inflight, bursts.
 *
 * Sections are those of draft-ietf-ccwg-bbr. Units: see bbr3.c.
 */
#ifndef PERIGEE_BBR3_MODEL_H
#define PERIGEE_BBR3_MODEL_H

#include "bbr3/snapshots.h"
#include "windowed_max.h"

#define BW_SHIFT 30
#define BW_ONE (1ULL << BW_SHIFT)
#define BW_MAX (64ULL << BW_SHIFT)
#define NO_BOUND_BW (~0ULL)
#define NO_BOUND TCP_INFINITE_SSTHRESH
#define RTT_US_MAX (1U << 26)
/* Gains and shares in percent. 277: 4 ln 2, the least pacing gain that doubles the rate each round with a window gain of 2. */
#define PERCENT 100
#define STARTUP_GAIN 277
#define DRAIN_GAIN 50
#define DOWN_GAIN 90
#define UP_GAIN 125
#define CWND_GAIN 200
#define UP_CWND_GAIN 225
#define PROBE_RTT_CWND_GAIN 50
#define PACING_PERCENT 99
#define LOSS_PERCENT 2
#define BETA 70
#define HEADROOM 15
#define MIN_WINDOW 4
#define INITIAL_WINDOW 10
/* The send quantum: 1 ms at the pacing rate, 2 packets to 64 KiB; the window has room for three. */
#define QUANTUM_BYTES_MAX 65536U
#define QUANTUM_PACKETS_MIN 2
#define QUANTA 3

enum { STARTUP, DRAIN, PROBE_DOWN, PROBE_CRUISE, PROBE_REFILL, PROBE_UP, PROBE_RTT, NO_STATE };
/* The phase of a PROBE_BW cycle that the ACKs arriving now belong to. */
enum { ACKS_INIT, ACKS_REFILLING, ACKS_PROBE_STARTING, ACKS_PROBE_FEEDBACK, ACKS_PROBE_STOPPING };

struct bbr3 {
	u64 bw_this_cycle; /* max_bw is the larger of two cycles */
	u64 bw_last_cycle;
	u64 bw_latest;
	u64 bw_shortterm;
	u64 full_bw;
	u64 undo_bw_shortterm;
	u64 min_rtt_stamp_us;
	u64 probe_rtt_min_stamp_us;
	u64 probe_rtt_done_us; /* 0: not yet at the small window */
	u64 cycle_stamp_us;
	u64 extra_start_us;
	struct windowed_max extra; /* over rounds */
	u32 extra_delivered;
	u32 min_rtt_us;
	u32 probe_rtt_min_us;
	u32 probe_wait_us;
	u32 round;
	u32 round_end;      /* `delivered` that ends the round */
	u32 loss_round_end; /* and that of a loss */
	u32 recovery_begin; /* `delivered` when recovery began */
	u32 drain_start_round;
	u32 rounds_since_probe;
	u32 inflight_latest;
	u32 inflight_shortterm;
	u32 inflight_longterm;
	u32 undo_inflight_shortterm;
	u32 undo_inflight_longterm;
	u32 up_per_packet; /* ACKed packets per packet that inflight_longterm grows in PROBE_UP */
	u32 up_acked;
	u32 prior_cwnd;
	u32 lost_seen;
	u32 ce_seen;
	u8 state;
	u8 undo_state; /* where a spurious loss leads back; NO_STATE: nowhere */
	u8 ack_phase;
	u8 prev_ca_state;
	u8 full_bw_count;
	u8 up_rounds;
	u8 loss_events;
	u8 round_start : 1, loss_round_start : 1, loss_in_round : 1, ce_in_round : 1, full_bw_now : 1, full_bw_reached : 1,
		idle_restart : 1, probe_rtt_round_done : 1;
	u8 has_seen_rtt : 1, probe_samples : 1, probed_too_high : 1, stopped_as_precaution : 1;
	struct snapshots sent;
};
CC_STORAGE(struct bbr3);

/* A sample of the path from one ACK. `bw` is 0 if it has no rate. */
struct sample {
	u64 bw;
	u32 delivered;
	u32 acked;
	u32 losses;       /* packets marked as lost since the last ACK */
	u32 tx_in_flight; /* when the packet left that was delivered last */
	u32 lost;         /* since then */
	bool is_app_limited;
};

static u64 max_bw(const struct bbr3 *b)
{
	return max64(b->bw_this_cycle, b->bw_last_cycle);
}

static u64 model_bw(const struct bbr3 *b)
{
	return min64(max_bw(b), b->bw_shortterm);
}

static u32 percent_of(u32 x, u32 percent)
{
	return (u32)((u64)x * percent / PERCENT);
}

/* packets/us to bytes/s at a gain, less the margin. */
static u64 bytes_per_second(struct sock *sk, u64 bw, u32 gain)
{
	u64 rate = bw * tcp_sk(sk)->mss_cache, scale = (u64)gain * PACING_PERCENT * (USEC_PER_SEC / (PERCENT * PERCENT));

	if (rate < 1ULL << 38)
		return rate * scale >> BW_SHIFT;
	return (rate >> 16) * scale >> (BW_SHIFT - 16);
}

/* BDPMultiple(gain). */
static u32 bdp(const struct bbr3 *b, u64 bw, u32 gain)
{
	u64 product = bw * min32(b->min_rtt_us, RTT_US_MAX);

	if (b->min_rtt_us == ~0U)
		return INITIAL_WINDOW;
	product = product < 1ULL << 54 ? product * gain / PERCENT : product / PERCENT * gain;
	return (u32)min64((product + BW_ONE - 1) >> BW_SHIFT, NO_BOUND);
}

/* QuantizationBudget(): room for bursts at sender, network and receiver, for few packets, and for probing. */
static u32 with_bursts(struct sock *sk, const struct bbr3 *b, u32 inflight)
{
	u32 mss = max32(tcp_sk(sk)->mss_cache, 1);
	u32 quantum = (u32)min64(sk->sk_pacing_rate / 1000, QUANTUM_BYTES_MAX) / mss;

	inflight = max32(inflight, QUANTA * max32(quantum, QUANTUM_PACKETS_MIN));
	return b->state == PROBE_UP ? inflight + 2 : inflight;
}

/* Inflight(bw, 1.0). */
static u32 inflight_at(struct sock *sk, const struct bbr3 *b, u64 bw)
{
	return with_bursts(sk, b, bdp(b, bw, PERCENT));
}

static u32 inflight_with_headroom(const struct bbr3 *b)
{
	u32 headroom = max32(percent_of(b->inflight_longterm, HEADROOM), 1);

	if (b->inflight_longterm >= NO_BOUND)
		return NO_BOUND;
	return max32(max32(b->inflight_longterm, headroom) - headroom, MIN_WINDOW);
}

/* The flight that a probe should reach: the window, or less if that is enough for the model. */
static u32 target_inflight(struct sock *sk, const struct bbr3 *b)
{
	return min32(bdp(b, model_bw(b), PERCENT), tcp_sk(sk)->snd_cwnd);
}

static u32 probe_rtt_cwnd(const struct bbr3 *b)
{
	return max32(bdp(b, model_bw(b), PROBE_RTT_CWND_GAIN), MIN_WINDOW);
}

static bool in_probe_bw(const struct bbr3 *b)
{
	return b->state >= PROBE_DOWN && b->state <= PROBE_UP;
}

/* In these states losses are expected, and set no short-term bounds. */
static bool is_probing(const struct bbr3 *b)
{
	return b->state == STARTUP || b->state == PROBE_REFILL || b->state == PROBE_UP;
}

static u32 pacing_gain(const struct bbr3 *b)
{
	switch (b->state) {
	case STARTUP:
		return STARTUP_GAIN;
	case DRAIN:
		return DRAIN_GAIN;
	case PROBE_DOWN:
		return DOWN_GAIN;
	case PROBE_UP:
		return UP_GAIN;
	default:
		return PERCENT;
	}
}

static u32 cwnd_gain(const struct bbr3 *b)
{
	switch (b->state) {
	case PROBE_UP:
		return UP_CWND_GAIN;
	case PROBE_RTT:
		return PROBE_RTT_CWND_GAIN;
	default:
		return CWND_GAIN;
	}
}

static void start_round(struct sock *sk, struct bbr3 *b)
{
	b->round_end = tcp_sk(sk)->delivered;
}

static void reset_full_bw(struct bbr3 *b)
{
	b->full_bw = 0;
	b->full_bw_count = 0;
	b->full_bw_now = 0;
}

static void save_cwnd(struct sock *sk, struct bbr3 *b)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	if (b->prev_ca_state < TCP_CA_Recovery && b->state != PROBE_RTT)
		b->prior_cwnd = cwnd;
	else
		b->prior_cwnd = max32(b->prior_cwnd, cwnd);
}

/* Saves the state that a spurious loss restores. */
static void save_upon_loss(struct sock *sk, struct bbr3 *b)
{
	save_cwnd(sk, b);
	b->undo_state = NO_STATE;
	b->undo_bw_shortterm = b->bw_shortterm;
	b->undo_inflight_shortterm = b->inflight_shortterm;
	b->undo_inflight_longterm = b->inflight_longterm;
}

#endif
