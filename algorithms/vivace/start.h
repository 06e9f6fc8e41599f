/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * PCC Vivace: the starting phase, and when it ends.
 *
 * Units: see vivace.c.
 */
#ifndef PERIGEE_VIVACE_START_H
#define PERIGEE_VIVACE_START_H

#include "vivace/decide.h"

/* Single gradients up to here are noise as long as little is known of it; twice as much is a path that is overrun. */
#define START_NOISE (SLOPE_ONE / 4)
/* A lost share of 10 %. */
#define START_LOSS ((1U << SHARE_SHIFT) / 10)

static s64 start_utility(struct sock *sk, const struct interval *in, u64 x)
{
	s64 slope = bounded_slope(sk, in);
	u64 lost = lost_share(sk, in);

	if (param(sk, noise))
		slope = above_floor(sk, slope);
	else if (magnitude(slope) <= START_NOISE)
		slope = 0;
	if (param(sk, start_utility)) {
		slope = slope < 0 ? 0 : slope;
		lost = lost < START_LOSS ? 0 : lost;
	}
	return utility(sk, x, slope, lost);
}

static void leave_starting(struct sock *sk, struct vivace *v)
{
	v->direction = 0;
	v->level_us = 0;
	enter_probing(sk, v);
}

static bool starts_under_way(const struct vivace *v)
{
	bool found = false;

	for (u32 i = 0; i < RING; i++)
		found |= i < v->count && v->ring[(v->head + i) % RING].purpose == START;
	return found;
}

/* A starting rate is tried, and the next one waits for its result. */
static bool waits_for_start(struct sock *sk, const struct vivace *v)
{
	return param(sk, start) && starts_under_way(v);
}

static bool was_used(struct sock *sk, const struct interval *in)
{
	return param(sk, limited) || used_rate(in) > in->rate / 4 * 3;
}

/* A rate that was no better, or that was not used, must be so twice. */
static void judge_start(struct sock *sk, struct vivace *v, const struct interval *in, u64 x)
{
	s64 worth = start_utility(sk, in, x);

	if (!in->unusable && in->samples >= SAMPLES_MIN && was_used(sk, in)) {
		v->unused = 0;
		v->held = v->has_utility && worth < v->utility && in->rate > v->rate;
		if (!v->held) {
			v->has_utility = 1;
			v->utility = worth;
			v->rate = max64(in->rate, v->rate);
			/* Without a queue gradients are noise. */
			learn_noise(v, magnitude(bounded_slope(sk, in)));
		}
	} else if (!in->unusable && v->unused) {
		/* A window is the limit: what it lets through is the rate. */
		v->rate = bounded_rate(sk, used_rate(in));
		leave_starting(sk, v);
		return;
	} else {
		v->unused = !in->unusable;
	}
	if (v->held && !starts_under_way(v))
		leave_starting(sk, v);
}

/* Half of a starting interval is enough to see that the path is overrun: a safeguard of a start that runs ahead of its results, which
 * judges by the regression and the whole utility whatever the parameters say. */
static void glance(struct sock *sk, struct vivace *v, const struct interval *in)
{
	u64 mean_time;

	if (v->phase != STARTING || param(sk, start) || v->held || !v->has_utility || in->length_us == 0 || in->samples < 2 * SAMPLES_MIN ||
	    in->rate <= v->rate)
		return;
	mean_time = (in->sum_time << TIME_SHIFT) / in->samples;
	if (mean_time * 4 >= in->length_us && interval_slope(in) > 2 * START_NOISE &&
	    utility(sk, sent_rate(in), interval_slope(in), lost_share(sk, in)) < v->utility)
		v->held = 1;
}

#endif
