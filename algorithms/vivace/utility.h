/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * PCC Vivace: the state, the utility of an interval, and the noise in a gradient.
 *
 * Units: see vivace.c.
 */
#ifndef PERIGEE_VIVACE_UTILITY_H
#define PERIGEE_VIVACE_UTILITY_H

#include "vivace/interval.h"

#define UTILITY_SHIFT 10
/* bytes/s to Mbit/s << 10 */
#define MBIT_BYTES 125000
#define RING 8
#define RATE_MAX (125ULL * 1000 * 1000 * 1000)
/* Half mean deviations of a gradient that are noise: in comparisons, in a mean of four, and in the round trip's rise. */
#define NOISE_COMPARED 3
#define NOISE_OF_FOUR 2
#define NOISE_RISE 6
/* The deviation assumed before there is a history: 1/12. */
#define DEVIATION_INITIAL (SLOPE_ONE / 12)
#define TRAIN_BYTES_MAX 65536U
#define PROBES 4
/* Where moves go upwards, in parts of 1000: rates that differ by less have no gradient, and the least step. */
#define RISE_MIN 20
#define STEP_MIN 22
#define LEAST_MS 5000
/* Lost shares << 20. */
#define SHARE_SHIFT 20
/* More than any queue does, and little enough for 64 bits. */
#define SLOPE_MAX (4 * SLOPE_ONE)
#define RESPONSE_MAX (64 * SLOPE_ONE)

enum { STARTING, PROBING, MOVING };
/* The purpose of an interval; IDLE ones fill the time until results arrive. */
enum { IDLE, START, PROBE_UP, PROBE_DOWN, MOVE };

/* The result of a probe. */
struct answer {
	u64 x;     /* what was sent, Mbit/s << 10 */
	s64 slope; /* of the round trip */
	u32 rtt_us;
	u32 lost;
};

struct vivace {
	struct interval ring[RING];
	u32 head;              /* oldest interval without a result */
	u32 count;
	u64 rate;              /* the rate decisions are about, */
	u64 fallback;          /* and the one before the last step */
	s64 utility;           /* of the last result at `rate`; valid in STARTING and MOVING */
	u64 x;                 /* Mbit/s << 10 of that result, */
	s64 slope;             /* its gradient as far as it is believed, */
	s64 response;          /* and how that grows with the rate: by response x change of x / x */
	u64 deviation;         /* mean absolute, of gradients of equal rates */
	u32 level_us;          /* round trip that the queue's growth is measured from; 0: none */
	u8 phase;
	u8 has_utility;
	u8 held;               /* STARTING: a result was bad, the next ones decide */
	u8 unused;             /* STARTING: the last rate was more than was sent */
	u8 issued;             /* probes sent, */
	u8 answered;           /* and judged */
	s8 direction;
	u8 up_first;           /* bit per pair */
	u32 confidence;        /* steps in this direction */
	u32 bounds_hit;
	struct answer answers[PROBES];
	u32 window_end;        /* of the peer's window at the last ACK */
	u32 seq_seen;          /* newest sequence number a result came for */
	u32 least_us;          /* round trip since `least_since`, */
	u32 last_least_us;     /* and in the time before; all ones: none */
	u32 least_since;       /* ms */
};
CC_STORAGE(struct vivace)

static u32 smoothed_rtt(struct sock *sk)
{
	return max32(tcp_sk(sk)->srtt_us >> 3, 1);
}

/* The round trip without the queue: the least of the last 5 to 10 s, since paths in orbit change. */
static u32 base_rtt(struct sock *sk, const struct vivace *v)
{
	return min32(min32(v->least_us, v->last_least_us), smoothed_rtt(sk));
}

static void track_least(struct sock *sk, struct vivace *v, u32 rtt_us)
{
	u32 now = now_ms(sk);

	if (now - v->least_since > LEAST_MS) {
		v->last_least_us = v->least_us;
		v->least_us = rtt_us;
		v->least_since = now;
	}
	v->least_us = max32(min32(v->least_us, rtt_us), 1);
}

/* Two packets per round trip at least. */
static u64 bounded_rate(struct sock *sk, u64 rate)
{
	u64 least = 2ULL * tcp_sk(sk)->mss_cache * USEC_PER_SEC / smoothed_rtt(sk);

	return min64(max64(rate, least), RATE_MAX);
}

/* Paper, equation 2: u = x^t - b x dRTT/dT - c x L. */
static s64 utility(struct sock *sk, u64 x, s64 slope, u64 lost)
{
	s64 worth = (s64)power_fixed(x, (u32)param(sk, exponent), UTILITY_SHIFT);

	if (slope < 0 && !param(sk, drain_reward))
		slope = 0;
	worth -= ((s64)(param(sk, latency) * x) * slope) >> SLOPE_SHIFT;
	return worth - (s64)((x * param(sk, loss) / 100 * lost) >> SHARE_SHIFT);
}

static u64 lost_share(struct sock *sk, const struct interval *in)
{
	u64 lost = min64((u64)in->losses * tcp_sk(sk)->mss_cache, in->bytes);

	return (lost << SHARE_SHIFT) / max64(in->bytes, 1);
}

static s64 bounded(s64 value, s64 limit)
{
	return value > limit ? limit : value < -limit ? -limit : value;
}

static s64 bounded_slope(struct sock *sk, const struct interval *in)
{
	return bounded(param(sk, gradient) ? interval_ends_slope(in, tcp_sk(sk)->mss_cache) : interval_slope(in), SLOPE_MAX);
}

static u64 gradient_floor(struct sock *sk)
{
	return param(sk, gradient_floor) * SLOPE_ONE / 1000;
}

/* A gradient by itself, none up to the floor. */
static s64 above_floor(struct sock *sk, s64 slope)
{
	return magnitude(slope) <= gradient_floor(sk) ? 0 : slope;
}

/* A gradient up to here may be noise: `half_deviations` of it, and the floor. */
static u64 tolerated(struct sock *sk, const struct vivace *v, u32 half_deviations)
{
	return max64(v->deviation * half_deviations / 2, gradient_floor(sk));
}

/* The rate sent, Mbit/s << 10: bytes/us are 8 Mbit/s. */
static u64 sent_rate(const struct interval *in)
{
	return (in->bytes << (UTILITY_SHIFT + 3)) / max32(in->length_us, 1);
}

/* The burst of Linux (`tcp_tso_autosize`): a millisecond's, on a short path up to 64 kB, at most half a window. */
static u32 train_packets(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 halvings = tcp_min_rtt(tp) >> 9;
	u64 bytes = sk->sk_pacing_rate >> 10;

	bytes += halvings < 16 ? TRAIN_BYTES_MAX >> halvings : 0;
	return min32(max32((u32)min64(bytes, TRAIN_BYTES_MAX) / max32(tp->mss_cache, 1), 2), max32(tp->snd_cwnd / 2, 1));
}

/* The rate that an interval tells of, Mbit/s << 10: the one asked for, unless what left differs by more than a train. */
static u64 tried_rate(struct sock *sk, const struct interval *in)
{
	u64 asked = in->rate * min32(max32(in->length_us, 1), 100 * USEC_PER_SEC) / USEC_PER_SEC;
	u64 train = (u64)train_packets(sk) * tcp_sk(sk)->mss_cache;

	if (param(sk, limited) || magnitude((s64)in->bytes - (s64)asked) <= max64(asked / 8, train))
		return (in->rate << UTILITY_SHIFT) / MBIT_BYTES;
	return sent_rate(in);
}

/* Bytes/s that left. */
static u64 used_rate(const struct interval *in)
{
	return in->bytes * USEC_PER_SEC / max32(in->length_us, 1);
}

#endif
