/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * PCC Vivace: utility of an interval, and what follows from it.
 *
 * Units: see vivace.c.
 */
#ifndef PERIGEE_VIVACE_DECIDE_H
#define PERIGEE_VIVACE_DECIDE_H

#include "vivace/interval.h"

#define UTILITY_SHIFT 10
/* bytes/s to Mbit/s << 10 */
#define MBIT_BYTES 125000
#define RING 8
#define RATE_MAX (125ULL * 1000 * 1000 * 1000)
/* Mean deviations of the gradient that count as noise, and the deviation assumed before there is a history: 1/12. */
#define NOISE_DEVIATIONS 3
#define DEVIATION_INITIAL (SLOPE_ONE / 12)
#define PROBES 4

enum { STARTING, PROBING, MOVING };
/* What an interval is for; IDLE ones fill the time until results arrive. */
enum { IDLE, START, PROBE_UP, PROBE_DOWN, MOVE };

struct vivace {
	struct interval ring[RING];
	u32 head;              /* oldest interval without a result */
	u32 count;
	u64 rate;              /* the rate decisions are about, */
	u64 fallback;          /* and the one before the last step */
	s64 utility;           /* of the last result at `rate`; valid in STARTING and MOVING */
	u64 x;                 /* Mbit/s << 10 of that result */
	struct noise noise;
	u8 phase;
	u8 has_utility;
	u8 issued;             /* probes sent, */
	u8 answered;           /* and judged */
	s8 direction;
	u8 up_first;           /* bit per pair */
	u32 confidence;        /* steps in this direction */
	u32 bounds_hit;
	s64 probe_utility[PROBES];
	u64 probe_x[PROBES];
	u32 seq_seen;          /* newest sequence number a result came for */
};
CC_STORAGE(struct vivace)

static u32 smoothed_rtt(struct sock *sk)
{
	return max32(tcp_sk(sk)->srtt_us >> 3, 1);
}

/* Two packets per round trip at least. */
static u64 bounded_rate(struct sock *sk, u64 rate)
{
	u64 least = 2ULL * tcp_sk(sk)->mss_cache * USEC_PER_SEC / smoothed_rtt(sk);

	return min64(max64(rate, least), RATE_MAX);
}

/* ---- utility ---- */

/* The gradient of an interval, or zero where it says no more than noise would. Learns what noise is. */
static s64 filtered_slope(struct sock *sk, struct vivace *v, const struct interval *in)
{
	s64 slope = interval_slope(in), limit = 4 * SLOPE_ONE;
	u64 floor = param(sk, gradient_floor) * SLOPE_ONE / 1000, tolerated = v->noise.deviation * NOISE_DEVIATIONS;
	u64 trend, trend_floor = param(sk, trend_floor) * SLOPE_ONE / 1000;

	slope = slope > limit ? limit : slope < -limit ? -limit : slope;
	if (!in->unusable)
		noise_learn(&v->noise, in, slope);
	trend = magnitude(noise_trend(&v->noise, max32(in->length_us, 1)));
	if (magnitude(slope) <= floor || (magnitude(slope) <= tolerated && trend <= trend_floor))
		return 0;
	return slope;
}

/* Paper, equation 2: u = x^t - b x dRTT/dT - c x L. */
static s64 utility(struct sock *sk, const struct interval *in, u64 x, s64 slope)
{
	u64 mss = tcp_sk(sk)->mss_cache, lost = min64((u64)in->losses * mss, in->bytes);
	u64 share = (lost << 20) / max64(in->bytes, 1);
	s64 worth = (s64)power_fixed(x, (u32)param(sk, exponent), UTILITY_SHIFT);

	if (slope < 0 && !param(sk, drain_reward))
		slope = 0;
	worth -= ((s64)(param(sk, latency) * x) * slope) >> SLOPE_SHIFT;
	return worth - (s64)((x * param(sk, loss) / 100 * share) >> 20);
}

/* What was sent, Mbit/s << 10: bytes/us are 8 Mbit/s. */
static u64 sent_rate(const struct interval *in)
{
	return (in->bytes << (UTILITY_SHIFT + 3)) / max32(in->length_us, 1);
}

/* ---- decisions ---- */

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
	/* What is under way answers questions that are no longer asked. */
	for (int i = 0; i < RING; i++)
		v->ring[i].purpose = IDLE;
	newest(v)->rate = v->rate;
}

/* Paper, 4.2 and 4.3: step = theta m(tau) gradient, at most omega = omega0 + k delta of the rate. */
static void step(struct sock *sk, struct vivace *v, s64 gradient)
{
	s8 direction = gradient > 0 ? 1 : -1;
	u64 first = param(sk, boundary), more = param(sk, boundary_step), change, limit, part;
	u32 amplifier;

	if (direction != v->direction) {
		v->direction = direction;
		v->confidence = 0;
		v->bounds_hit = 0;
	}
	v->confidence = min32(v->confidence + 1, 50);
	amplifier = v->confidence <= 3 ? v->confidence : 2 * v->confidence - 3;
	change = min64(magnitude(gradient), 1ULL << 30) * amplifier * param(sk, step) >> 10;
	change = min64(change, 1ULL << 40) * MBIT_BYTES >> UTILITY_SHIFT;
	limit = v->rate / 1000 * min64(first + v->bounds_hit * more, 500);
	if (change > limit) {
		change = limit;
		v->bounds_hit = min32(v->bounds_hit + 1, 100);
	} else {
		part = change * 1000 / max64(v->rate, 1);
		v->bounds_hit = part > first ? (u32)((part - first + more - 1) / more) : 0;
	}
	v->fallback = v->rate;
	v->rate = bounded_rate(sk, direction > 0 ? v->rate + change : v->rate - change);
	enter_probing(sk, v);
	v->phase = MOVING;
}

/* Two pairs that agree give a gradient; otherwise there is none, and pairs are tried again. */
static void decide_from_probes(struct sock *sk, struct vivace *v)
{
	s64 rise[2], gain[2], gradient;

	for (int pair = 0; pair < 2; pair++) {
		int up = 2 * pair + !(v->up_first >> pair & 1), down = 4 * pair + 1 - up;

		gain[pair] = v->probe_utility[up & 3] - v->probe_utility[down & 3];
		rise[pair] = (s64)v->probe_x[up & 3] - (s64)v->probe_x[down & 3];
	}
	gradient = divide((gain[0] + gain[1]) << UTILITY_SHIFT, rise[0] + rise[1]);
	enter_probing(sk, v);
	if (rise[0] <= 0 || rise[1] <= 0 || gradient == 0 || (gain[0] > 0) != (gain[1] > 0))
		return;
	v->utility = (v->probe_utility[0] + v->probe_utility[1] + v->probe_utility[2] + v->probe_utility[3]) >> 2;
	v->x = (v->probe_x[0] + v->probe_x[1] + v->probe_x[2] + v->probe_x[3]) >> 2;
	step(sk, v, gradient);
}

static void decide_from_move(struct sock *sk, struct vivace *v, u64 x, s64 worth)
{
	s64 rise = (s64)x - (s64)v->x, gradient = divide((worth - v->utility) << UTILITY_SHIFT, rise);
	bool measurable = magnitude(rise) > x >> 10;

	if (measurable && (gradient > 0) == (v->direction > 0) && gradient != 0) {
		v->utility = worth;
		v->x = x;
		step(sk, v, gradient);
		return;
	}
	v->rate = v->fallback;
	v->direction = 0;
	enter_probing(sk, v);
}

static void leave_starting(struct sock *sk, struct vivace *v)
{
	v->direction = 0;
	v->noise.average = 0;
	v->noise.deviation = DEVIATION_INITIAL;
	enter_probing(sk, v);
}

/* An interval's feedback is complete. */
static void judge(struct sock *sk, struct vivace *v, const struct interval *in)
{
	s64 worth = 0, slope = filtered_slope(sk, v, in);
	u64 x = sent_rate(in);

	if (in->purpose == IDLE)
		return;
	if (in->unusable) {
		if (in->purpose != START)
			enter_probing(sk, v);
		return;
	}
	worth = utility(sk, in, x, slope);
	switch (in->purpose) {
	case START:
		if (v->has_utility && worth < v->utility) {
			leave_starting(sk, v);
			break;
		}
		v->has_utility = 1;
		v->utility = worth;
		v->rate = in->rate;
		break;
	case MOVE:
		decide_from_move(sk, v, x, worth);
		break;
	default:
		v->probe_utility[v->answered & 3] = worth;
		v->probe_x[v->answered & 3] = x;
		if (++v->answered == PROBES)
			decide_from_probes(sk, v);
	}
}

/* Half of a starting interval is enough to see that the path is overrun: a gradient over twice the tolerance. */
static void glance(struct sock *sk, struct vivace *v, const struct interval *in)
{
	u64 mean_time;

	if (v->phase != STARTING || !v->has_utility || in->length_us == 0 || in->samples < 2 * SAMPLES_MIN)
		return;
	mean_time = (in->sum_time << TIME_SHIFT) / in->samples;
	if (mean_time * 4 >= in->length_us &&
	    interval_slope(in) > (s64)(2 * NOISE_DEVIATIONS * v->noise.deviation) &&
	    utility(sk, in, sent_rate(in), interval_slope(in)) < v->utility)
		leave_starting(sk, v);
}

#endif
