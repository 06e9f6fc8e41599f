/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BBR version 3: what losses and congestion marks say: the short-term bounds, the end of a probe, the end of STARTUP.
 */
#ifndef PERIGEE_BBR3_BOUNDS_H
#define PERIGEE_BBR3_BOUNDS_H

#include "bbr3/cycle.h"

/* STARTUP ends by losses in this many places of a round. */
#define STARTUP_LOSS_EVENTS 6

/* The first loss of a round begins a round of its own, and saves what a spurious one has to restore. */
static void note_loss(struct sock *sk, struct bbr3 *b)
{
	if (!b->loss_in_round) {
		b->loss_round_end = tcp_sk(sk)->delivered;
		b->loss_events = 0;
		save_upon_loss(sk, b);
	}
	b->loss_in_round = 1;
	b->loss_events = (u8)min32(b->loss_events + 1U, 0xff);
}

/*
 * What was in flight when the losses crossed 2 %. Of the packets lost together the first ones were within it.
 */
static u32 inflight_at_loss(const struct sample *s)
{
	u32 inflight = max32(s->tx_in_flight, s->losses) - s->losses, lost = max32(s->lost, s->losses) - s->losses;
	u64 allowed = (u64)inflight * LOSS_PERCENT, had = (u64)lost * PERCENT;

	return had >= allowed ? inflight : inflight + (u32)((allowed - had) / (PERCENT - LOSS_PERCENT));
}

static void handle_losses(struct sock *sk, struct bbr3 *b, const struct sample *s)
{
	if (s->losses == 0)
		return;
	note_loss(sk, b);
	if (b->probe_samples && is_inflight_too_high(s))
		handle_inflight_too_high(sk, b, s, inflight_at_loss(s));
}

/* A mark is congestion, as a loss is: no share of marks is tolerated. */
static void handle_marks(struct sock *sk, struct bbr3 *b, const struct sample *s, u32 marks)
{
	if (marks == 0 || !param(sk, ecn))
		return;
	note_loss(sk, b);
	b->ce_in_round = 1;
	if (b->probe_samples)
		handle_inflight_too_high(sk, b, s, s->tx_in_flight);
}

static void update_latest(struct sock *sk, struct bbr3 *b, const struct sample *s, const struct rate_sample *rs)
{
	b->loss_round_start = 0;
	b->bw_latest = max64(b->bw_latest, s->bw);
	b->inflight_latest = max32(b->inflight_latest, s->delivered);
	if (!before(rs->prior_delivered, b->loss_round_end)) {
		b->loss_round_end = tcp_sk(sk)->delivered;
		b->loss_round_start = 1;
	}
}

static void advance_latest(struct bbr3 *b, const struct sample *s)
{
	if (!b->loss_round_start)
		return;
	b->bw_latest = s->bw;
	b->inflight_latest = s->delivered;
}

static void lower_bounds(struct sock *sk, struct bbr3 *b)
{
	if (b->bw_shortterm == NO_BOUND_BW)
		b->bw_shortterm = max_bw(b);
	if (b->inflight_shortterm == NO_BOUND)
		b->inflight_shortterm = tcp_sk(sk)->snd_cwnd;
	b->bw_shortterm = max64(b->bw_latest, b->bw_shortterm * BETA / PERCENT);
	b->inflight_shortterm = max32(b->inflight_latest, percent_of(b->inflight_shortterm, BETA));
}

/* A round of recovery with more than 2 % lost, in six places or more, fills the pipe; so does a round with a mark. */
static void check_startup_loss(struct sock *sk, struct bbr3 *b, const struct sample *s, const struct rate_sample *rs)
{
	bool whole_round = ca_state(sk) == TCP_CA_Recovery && !before(rs->prior_delivered, b->recovery_begin);
	bool lossy = whole_round && b->loss_events >= STARTUP_LOSS_EVENTS && is_inflight_too_high(s);

	if (b->full_bw_reached || !(lossy || b->ce_in_round))
		return;
	b->undo_state = STARTUP;
	b->full_bw_now = 1;
	b->full_bw_reached = 1;
	b->inflight_longterm = max32(bdp(b, model_bw(b), PERCENT), b->inflight_latest);
}

/* Once per round of a loss. */
static void adapt_shortterm(struct sock *sk, struct bbr3 *b, const struct sample *s, const struct rate_sample *rs)
{
	if (!b->loss_round_start)
		return;
	if (b->loss_in_round && !is_probing(b))
		lower_bounds(sk, b);
	check_startup_loss(sk, b, s, rs);
	b->loss_in_round = 0;
	b->ce_in_round = 0;
}

/* The loss was none: what it lowered is restored, and a probe that it ended begins again. */
static void handle_spurious_loss(struct sock *sk, struct bbr3 *b)
{
	b->loss_in_round = 0;
	/* After a timeout this comes before the ACK's losses are read: those are none, too. */
	b->lost_seen = tcp_sk(sk)->lost;
	reset_full_bw(b);
	b->bw_shortterm = max64(b->bw_shortterm, b->undo_bw_shortterm);
	b->inflight_shortterm = max32(b->inflight_shortterm, b->undo_inflight_shortterm);
	b->inflight_longterm = max32(b->inflight_longterm, b->undo_inflight_longterm);
	if (b->undo_state == STARTUP && b->state != STARTUP) {
		b->full_bw_reached = 0;
		if (b->state != PROBE_RTT)
			b->state = STARTUP;
	} else if (b->undo_state == PROBE_UP && b->state != PROBE_UP && b->state != PROBE_RTT) {
		start_refill(sk, b);
	}
	b->undo_state = NO_STATE;
}

#endif
