/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BBR version 3: the states, and the long-term bound that PROBE_BW finds (inflight_longterm).
 *
 * PROBE_BW goes down (0.9) to drain what the last probe queued, cruises (1.0) for two to three seconds or Reno's rounds, refills the
 * pipe for a round, and goes up (1.25) until more brings no more, or loss.
 */
#ifndef PERIGEE_BBR3_CYCLE_H
#define PERIGEE_BBR3_CYCLE_H

#include "bbr3/model.h"

/* Time between probes: 2 to 3 s, or as many rounds as Reno would need to grow back, at most 63. */
#define PROBE_WAIT_US 2000000
#define PROBE_WAIT_SPREAD_US 1000000
#define RENO_ROUNDS_MAX 63
#define DRAIN_ROUNDS_MAX 3
#define UP_DOUBLINGS_MAX 30

static void start_down(struct sock *sk, struct bbr3 *b)
{
	struct tcp_sock *tp = tcp_sk(sk);

	b->state = PROBE_DOWN;
	b->loss_in_round = 0;
	b->ce_in_round = 0;
	b->bw_latest = 0;
	b->inflight_latest = 0;
	b->up_per_packet = NO_BOUND;
	b->rounds_since_probe = random_u32(sk) & 1;
	b->probe_wait_us = PROBE_WAIT_US + (u32)((u64)random_u32(sk) * PROBE_WAIT_SPREAD_US >> 32);
	b->cycle_stamp_us = tp->tcp_mstamp;
	b->ack_phase = ACKS_PROBE_STOPPING;
	start_round(sk, b);
}

static void reset_shortterm(struct bbr3 *b)
{
	b->bw_shortterm = NO_BOUND_BW;
	b->inflight_shortterm = NO_BOUND;
}

static void start_refill(struct sock *sk, struct bbr3 *b)
{
	b->state = PROBE_REFILL;
	reset_shortterm(b);
	b->up_rounds = 0;
	b->up_acked = 0;
	b->stopped_as_precaution = 0;
	b->ack_phase = ACKS_REFILLING;
	start_round(sk, b);
}

/* The first round of a probe adds a packet, the second two, and so on. */
static void raise_slope(struct sock *sk, struct bbr3 *b)
{
	u32 growth = 1U << min32(b->up_rounds, UP_DOUBLINGS_MAX);

	b->up_rounds = (u8)min32(b->up_rounds + 1U, UP_DOUBLINGS_MAX);
	b->up_per_packet = max32(tcp_sk(sk)->snd_cwnd / growth, 1);
}

static void start_up(struct sock *sk, struct bbr3 *b, const struct sample *s)
{
	b->state = PROBE_UP;
	b->ack_phase = ACKS_PROBE_STARTING;
	start_round(sk, b);
	reset_full_bw(b);
	b->full_bw = s->bw;
	raise_slope(sk, b);
}

static void enter_drain(struct bbr3 *b)
{
	b->state = DRAIN;
	b->drain_start_round = b->round;
}

static void leave_probe_rtt(struct sock *sk, struct bbr3 *b)
{
	reset_shortterm(b);
	if (!b->full_bw_reached) {
		b->state = STARTUP;
		return;
	}
	start_down(sk, b);
	b->state = PROBE_CRUISE;
}

/* More than 2 % lost of what was in flight when the packet left that was delivered last. */
static bool is_inflight_too_high(const struct sample *s)
{
	return (u64)s->lost * PERCENT > (u64)s->tx_in_flight * LOSS_PERCENT;
}

/* Once per probe: what was in flight is too much. */
static void handle_inflight_too_high(struct sock *sk, struct bbr3 *b, const struct sample *s, u32 inflight)
{
	b->probe_samples = 0;
	b->probed_too_high = 1;
	if (!s->is_app_limited)
		b->inflight_longterm = max32(inflight, percent_of(target_inflight(sk, b), BETA));
	if (b->state == PROBE_UP) {
		b->undo_state = PROBE_UP;
		start_down(sk, b);
	}
}

static void advance_max_bw(struct bbr3 *b)
{
	/* A cycle without samples ends no older one. */
	if (b->bw_this_cycle == 0)
		return;
	b->bw_last_cycle = b->bw_this_cycle;
	b->bw_this_cycle = 0;
}

/* The bound grows as fast as ACKs and the slope say, while it is what holds the sender back. */
static void grow_longterm(struct sock *sk, struct bbr3 *b, const struct sample *s)
{
	u32 grown;

	if (!window_was_the_limit(sk) || tcp_sk(sk)->snd_cwnd < b->inflight_longterm)
		return;
	b->up_acked += s->acked;
	if (b->up_acked >= b->up_per_packet) {
		grown = b->up_acked / b->up_per_packet;
		b->up_acked -= grown * b->up_per_packet;
		b->inflight_longterm = min32(b->inflight_longterm + grown, NO_BOUND);
	}
	if (b->round_start)
		raise_slope(sk, b);
}

/* True: a new state has begun. */
static bool adapt_longterm(struct sock *sk, struct bbr3 *b, const struct sample *s)
{
	if (b->ack_phase == ACKS_PROBE_STARTING && b->round_start)
		b->ack_phase = ACKS_PROBE_FEEDBACK;
	if (b->ack_phase == ACKS_PROBE_STOPPING && b->round_start) {
		b->probe_samples = 0;
		b->ack_phase = ACKS_INIT;
		if (in_probe_bw(b) && !s->is_app_limited)
			advance_max_bw(b);
		/* The precaution found no loss: there is more. */
		if (in_probe_bw(b) && b->stopped_as_precaution && !b->probed_too_high) {
			start_refill(sk, b);
			return true;
		}
	}
	if (is_inflight_too_high(s) || b->inflight_longterm >= NO_BOUND)
		return false;
	b->inflight_longterm = max32(b->inflight_longterm, s->tx_in_flight);
	if (b->state == PROBE_UP)
		grow_longterm(sk, b, s);
	return false;
}

static bool is_time_to_probe(struct sock *sk, const struct bbr3 *b)
{
	u32 reno_rounds = min32(target_inflight(sk, b), RENO_ROUNDS_MAX);

	return tcp_sk(sk)->tcp_mstamp - b->cycle_stamp_us > b->probe_wait_us || b->rounds_since_probe >= reno_rounds;
}

static bool is_time_to_cruise(struct sock *sk, const struct bbr3 *b)
{
	u32 inflight = tcp_packets_in_flight(tcp_sk(sk));

	return inflight <= inflight_with_headroom(b) && inflight <= inflight_at(sk, b, max_bw(b));
}

static bool is_time_to_go_down(struct sock *sk, struct bbr3 *b, const struct sample *s)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (b->probed_too_high && tcp_packets_in_flight(tp) >= b->inflight_longterm) {
		b->stopped_as_precaution = 1;
		return true;
	}
	/* Held back by the bound, not by the path. */
	if (window_was_the_limit(sk) && tp->snd_cwnd >= b->inflight_longterm) {
		reset_full_bw(b);
		b->full_bw = s->bw;
		return false;
	}
	return b->full_bw_now;
}

static void update_cycle(struct sock *sk, struct bbr3 *b, const struct sample *s)
{
	if (!b->full_bw_reached || adapt_longterm(sk, b, s))
		return;
	switch (b->state) {
	case PROBE_DOWN:
		if (is_time_to_probe(sk, b))
			start_refill(sk, b);
		else if (is_time_to_cruise(sk, b))
			b->state = PROBE_CRUISE;
		break;
	case PROBE_CRUISE:
		if (is_time_to_probe(sk, b))
			start_refill(sk, b);
		break;
	case PROBE_REFILL:
		if (!b->round_start)
			break;
		b->probe_samples = 1;
		start_up(sk, b, s);
		break;
	case PROBE_UP:
		if (!is_time_to_go_down(sk, b, s))
			break;
		b->probed_too_high = 0;
		start_down(sk, b);
		break;
	default:
		break;
	}
}

static void check_drain_done(struct sock *sk, struct bbr3 *b)
{
	if (b->state != DRAIN)
		return;
	if (tcp_packets_in_flight(tcp_sk(sk)) <= inflight_at(sk, b, model_bw(b)) ||
	    (s32)(b->round - b->drain_start_round) > DRAIN_ROUNDS_MAX)
		start_down(sk, b);
}

#endif
