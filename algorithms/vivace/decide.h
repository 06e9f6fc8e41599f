/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * PCC Vivace: results of probes and moves, and the step that follows.
 *
 * Units: see vivace.c.
 */
#ifndef PERIGEE_VIVACE_DECIDE_H
#define PERIGEE_VIVACE_DECIDE_H

#include "vivace/utility.h"

static struct interval *newest(struct vivace *v)
{
	return &v->ring[(v->head + v->count - 1) % RING];
}

static void enter_probing(struct sock *sk, struct vivace *v)
{
	v->phase = PROBING;
	v->issued = 0;
	v->answered = 0;
	v->up_first = (u8)random_u32(sk);
	/* Intervals under way answer questions that are no longer asked. */
	for (int i = 0; i < RING; i++)
		v->ring[i].purpose = IDLE;
	newest(v)->rate = v->rate;
}

/* m(tau). */
static u32 amplifier(struct sock *sk, const struct vivace *v)
{
	if (param(sk, confidence))
		return v->confidence + 1;
	return v->confidence <= 3 ? v->confidence : 2 * v->confidence - 3;
}

/* Paper, 4.2 and 4.3: step = theta m(tau) gradient, at most omega = omega0 + k delta of the rate. */
static void step(struct sock *sk, struct vivace *v, s64 gradient, s8 direction)
{
	u64 first = param(sk, boundary), more = param(sk, boundary_step), change, limit, part;

	if (direction != v->direction) {
		v->direction = direction;
		v->confidence = 0;
		v->bounds_hit = 0;
	}
	v->confidence = min32(v->confidence + 1, 50);
	change = min64(magnitude(gradient), 1ULL << 30) * amplifier(sk, v) * param(sk, step) >> 10;
	change = min64(change, 1ULL << 40) * MBIT_BYTES >> UTILITY_SHIFT;
	limit = v->rate / 1000 * min64(first + v->bounds_hit * more, 500);
	if (change > limit) {
		change = limit;
		v->bounds_hit = min32(v->bounds_hit + 1, 100);
	} else {
		part = change * 1000 / max64(v->rate, 1);
		v->bounds_hit = part > first ? (u32)((part - first + more - 1) / more) : 0;
	}
	if (param(sk, moves))
		change = max64(change, v->rate / 1000 * STEP_MIN);
	v->fallback = v->rate;
	v->rate = bounded_rate(sk, direction > 0 ? v->rate + change : v->rate - change);
	enter_probing(sk, v);
	v->phase = MOVING;
}

static void learn_noise(struct vivace *v, u64 deviation)
{
	v->deviation = v->deviation - (v->deviation >> 2) + (deviation >> 2);
}

/* The round trip has risen since it was last asked about by more than noise makes it, probe by probe. */
static bool has_risen(struct sock *sk, struct vivace *v, u32 level_us, u32 length_us)
{
	u64 noise = (v->deviation * NOISE_RISE / 2 * length_us) >> SLOPE_SHIFT;
	u64 rise = level_us > v->level_us ? level_us - v->level_us : 0;
	bool risen = v->level_us != 0 && rise > max64(noise, param(sk, trend_floor) * level_us / 1000);

	if (rise == 0 || v->level_us == 0)
		v->level_us = level_us;
	else if (risen)
		/* Half remains to be asked about: a queue that is still there, or a path that has become longer. */
		v->level_us += (u32)(rise / 2);
	return risen;
}

/* dRTT/dT at x: s + response (x - x0) / x0. */
static s64 expected_slope(const struct vivace *v, u64 x)
{
	s64 away = (s64)x - (s64)v->x;

	return bounded(v->slope + divide(v->response * away, (s64)v->x), SLOPE_MAX);
}

/* dRTT/dT that a probe tells of: what it measured, or s + response (x - x0) / x0. */
static s64 probed_slope(struct sock *sk, const struct vivace *v, const struct answer *probe)
{
	return param(sk, noise) ? above_floor(sk, probe->slope) : expected_slope(v, probe->x);
}

/* Reads from four probes the gradient of the round trip at their mean rate, and its response to the rate. */
static void read_round_trips(struct sock *sk, struct vivace *v, const struct answer *up[2], const struct answer *down[2],
			     u32 length_us)
{
	s64 rise = (s64)(up[0]->x + up[1]->x) - (s64)(down[0]->x + down[1]->x);
	s64 growth = up[0]->slope + up[1]->slope - down[0]->slope - down[1]->slope;
	u32 level = up[0]->rtt_us / 4 + up[1]->rtt_us / 4 + down[0]->rtt_us / 4 + down[1]->rtt_us / 4;

	/* Probes of equal rate differ by noise alone: their mean difference is sqrt(2) mean deviations. */
	learn_noise(v, (magnitude(up[0]->slope - up[1]->slope) + magnitude(down[0]->slope - down[1]->slope)) * 181 / 512);
	v->x = (up[0]->x + up[1]->x + down[0]->x + down[1]->x) / 4;
	v->slope = (up[0]->slope + up[1]->slope + down[0]->slope + down[1]->slope) >> 2;
	/* A mean of four has half the deviation of one. */
	if (magnitude(v->slope) <= tolerated(sk, v, NOISE_OF_FOUR))
		v->slope = 0;
	/* And `growth` has twice that of one. Sending more does not make a queue grow less. */
	v->response = 0;
	if (growth > 0 && (u64)growth > 2 * tolerated(sk, v, NOISE_COMPARED))
		v->response = bounded(divide(growth * (s64)v->x, rise), RESPONSE_MAX);
	/* A round trip that keeps growing is a queue, and one that is fed at rate x grows by x / C - 1. */
	if (has_risen(sk, v, level, length_us) && v->response < SLOPE_ONE)
		v->response = SLOPE_ONE;
}

/* x in Mbit/s << 10 as a rate in bytes/s. */
static u64 rate_of(struct sock *sk, u64 x)
{
	return bounded_rate(sk, (x * MBIT_BYTES) >> UTILITY_SHIFT);
}

/* The rate of the better probes is tried again, and steps follow from it. */
static void move_upwards_from(struct sock *sk, struct vivace *v, u64 x, s64 worth)
{
	v->x = x;
	v->utility = worth;
	v->rate = rate_of(sk, x);
	newest(v)->rate = v->rate;
	v->phase = MOVING;
}

/* Two pairs that agree give a gradient; otherwise there is none, and pairs are tried again. */
static void decide_from_probes(struct sock *sk, struct vivace *v, u32 length_us)
{
	const struct answer *up[2], *down[2];
	s64 rise[2], gain[2], worth[2] = {}, gradient, total = 0;

	for (int pair = 0; pair < 2; pair++) {
		bool second = !(v->up_first >> pair & 1);

		up[pair] = second ? &v->answers[2 * pair + 1] : &v->answers[2 * pair];
		down[pair] = second ? &v->answers[2 * pair] : &v->answers[2 * pair + 1];
		rise[pair] = (s64)up[pair]->x - (s64)down[pair]->x;
	}
	/* A window that holds back the higher probes holds back the rate. */
	v->rate = min64(v->rate, rate_of(sk, (up[0]->x + up[1]->x) / 2));
	if (rise[0] <= 0 || rise[1] <= 0) {
		enter_probing(sk, v);
		return;
	}
	read_round_trips(sk, v, up, down, length_us);
	for (int pair = 0; pair < 2; pair++) {
		worth[0] = utility(sk, up[pair]->x, probed_slope(sk, v, up[pair]), up[pair]->lost);
		worth[1] = utility(sk, down[pair]->x, probed_slope(sk, v, down[pair]), down[pair]->lost);
		gain[pair] = worth[0] - worth[1];
		total += worth[0] + worth[1];
	}
	gradient = divide((gain[0] + gain[1]) << UTILITY_SHIFT, rise[0] + rise[1]);
	enter_probing(sk, v);
	if (gradient == 0 || (gain[0] > 0) != (gain[1] > 0))
		return;
	if (param(sk, moves)) {
		move_upwards_from(sk, v, gradient > 0 ? up[1]->x : down[1]->x, gradient > 0 ? worth[0] : worth[1]);
		return;
	}
	v->utility = total >> 2;
	step(sk, v, gradient, gradient > 0 ? 1 : -1);
}

/* A move that goes on upwards, from one rate to the next; one that would go down does, and pairs are tried there. */
static void step_upwards(struct sock *sk, struct vivace *v, u64 x, s64 worth)
{
	s64 rise = (s64)x - (s64)v->x, gradient = 0;

	if (magnitude(rise) > v->x / 1000 * RISE_MIN)
		gradient = divide((worth - v->utility) << UTILITY_SHIFT, rise);
	v->x = x;
	v->utility = worth;
	step(sk, v, gradient, gradient < 0 ? -1 : 1);
	if (gradient < 0)
		enter_probing(sk, v);
}

/* A gradient that could be the expected one is taken for it. */
static void decide_from_move(struct sock *sk, struct vivace *v, u64 x, const struct interval *in)
{
	s64 rise = (s64)x - (s64)v->x, slope = bounded_slope(sk, in), expected = expected_slope(v, x), worth, gradient;
	/* A window that holds back a move holds back the rate. */
	bool moved = rise != 0 && (rise > 0) == (v->direction > 0);

	if (param(sk, noise))
		slope = above_floor(sk, slope);
	else if (magnitude(slope - expected) <= tolerated(sk, v, NOISE_COMPARED))
		slope = expected;
	worth = utility(sk, x, slope, lost_share(sk, in));
	if (param(sk, moves)) {
		step_upwards(sk, v, x, worth);
		return;
	}
	gradient = divide((worth - v->utility) << UTILITY_SHIFT, rise);
	if (moved && gradient != 0 && (gradient > 0) == (v->direction > 0)) {
		v->response = bounded(divide(v->response * (s64)x, (s64)v->x), RESPONSE_MAX);
		v->utility = worth;
		v->slope = slope;
		v->x = x;
		step(sk, v, gradient, v->direction);
		return;
	}
	v->rate = moved ? v->fallback : min64(v->fallback, bounded_rate(sk, used_rate(in)));
	v->direction = 0;
	enter_probing(sk, v);
}

#endif
