// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * LEDBAT++: a transfer in the background, which yields to all others by keeping the queue at a short target.
 *
 * draft-irtf-iccrg-ledbat-plus-plus-01 (2020): Balasubramanian, Ertugay, Havey; RFC 6817 (LEDBAT), for the base delay. Of -06 (January
 * 2026; with Bagnulo) the abstract was read, which names the four parts below, and nothing else.
 *
 *   G = 1 / min(16, ceil(2 target / base))
 *   queueing delay up to the target: W += G per round trip
 *   above it: W += max(G - W (delay / target - 1), -W / 2) per round trip
 *   slow start: from two packets, W += G per packet acknowledged; the first one ends at 3/4 of the target
 *   slowdowns: two round trips after the first slow start, then at nine times the length of the last one, the window is two packets for two
 *   round trips, and slow start leads back to where it was
 *
 * The delay is the least of the last four round trips, less the least of the last ten minutes. A loss halves the window.
 *
 * Differences from the draft: the terms of a round trip are applied packet by packet, in parts of a packet; a loss or a timeout within
 * a slowdown ends it; an idle time changes nothing here (the host may restart with its own first window).
 * Readings of the draft: its rule above the target is not applied below it, where it would add a window per round trip; the slow start
 * behind a slowdown has the gain G, too.
 *
 * Units: packets; round trips in us; stamps in ms.
 */
#include "tcp.h"

#define PARAMETERS(P)                                                                                                   \
	P(target, "us", 60000, 1000, 10000000, "queueing delay that it allows itself")                                      \
	P(slowdowns, "switch", 1, 0, 1, "empty the queue now and then, so that newcomers measure the base delay")
CC_PARAMETERS(PARAMETERS)

#define PART_SHIFT 10
#define PART_ONE (1U << PART_SHIFT)
#define NO_RTT 0x7fffffffU
/* The base is the least round trip of ten minutes, the delay that of four samples. */
#define MINUTES 10
#define MINUTE_MS 60000
#define SAMPLES 4
#define DIVISOR_MAX 16
#define WINDOW_MIN 2
/* Round trips from the end of the first slow start to the first slowdown, and in each; the lengths of a slowdown until the next. */
#define BEFORE_SLOWDOWN 2
#define IN_SLOWDOWN 2
#define LENGTHS_BETWEEN 9

enum { FIRST_SLOW_START, STEADY, HELD, BACK };

struct ledbat_pp {
	u32 minutes[MINUTES];
	u32 samples[SAMPLES];
	u32 minute_begin; /* ms */
	u32 parts;        /* of a packet to grow by */
	u32 excess;       /* and to shrink by */
	u32 slowdown_begin;
	u32 next_slowdown; /* or, while held, the end of that; ms */
	u32 back_to;       /* packets */
	u8 minute;
	u8 sample;
	u8 state;
};
/* In the storage, since a kernel allows no variable index into the private area. */
CC_STORAGE(struct ledbat_pp);

static u32 base_rtt(const struct ledbat_pp *ca)
{
	u32 least = NO_RTT;

	for (int i = 0; i < MINUTES; i++)
		least = min32(least, ca->minutes[i]);
	return least;
}

static u32 queueing_delay(const struct ledbat_pp *ca)
{
	u32 least = NO_RTT;

	for (int i = 0; i < SAMPLES; i++)
		least = min32(least, ca->samples[i]);
	return least - min32(base_rtt(ca), least);
}

/* 1 / G. */
static u32 divisor(struct sock *sk, const struct ledbat_pp *ca)
{
	u32 base = max32(base_rtt(ca), 1);
	u64 ratio = (2 * param(sk, target) + base - 1) / base;

	return (u32)min64(max64(ratio, 1), DIVISOR_MAX);
}

static u32 round_trip_ms(struct sock *sk)
{
	return max32((tcp_sk(sk)->srtt_us >> 3) / USEC_PER_MSEC, 1);
}

CC_CALLBACK(void, ledbat_pp_init, struct sock *sk)
{
	struct ledbat_pp *ca = cc_storage(sk);

	if (!ca)
		return;
	tcp_sk(sk)->snd_cwnd = min32(tcp_sk(sk)->snd_cwnd, WINDOW_MIN);
	*ca = (struct ledbat_pp){ .minute_begin = now_ms(sk) };
	for (int i = 0; i < MINUTES; i++)
		ca->minutes[i] = NO_RTT;
	for (int i = 0; i < SAMPLES; i++)
		ca->samples[i] = NO_RTT;
}

CC_CALLBACK(void, ledbat_pp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct ledbat_pp *ca = cc_storage(sk);
	u32 minute, place, now = now_ms(sk);

	if (!ca || sample->rtt_us < 0)
		return;
	/* Bounds that a verifier can see. */
	minute = min32(ca->minute, MINUTES - 1);
	place = ca->sample % SAMPLES;
	if (now - ca->minute_begin >= MINUTE_MS) {
		ca->minute_begin = now;
		minute = minute + 1 < MINUTES ? minute + 1 : 0;
		ca->minute = (u8)minute;
		ca->minutes[minute] = NO_RTT;
	}
	ca->minutes[minute] = min32(ca->minutes[minute], (u32)sample->rtt_us);
	ca->samples[place] = (u32)sample->rtt_us;
	ca->sample = (u8)(place + 1);
}

/* The window of two packets, for two round trips. */
static void begin_slowdown(struct sock *sk, struct ledbat_pp *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ca->state = HELD;
	ca->slowdown_begin = now_ms(sk);
	ca->next_slowdown = ca->slowdown_begin + IN_SLOWDOWN * round_trip_ms(sk);
	ca->back_to = tp->snd_cwnd;
	tp->snd_ssthresh = max32(tp->snd_cwnd, WINDOW_MIN);
	tp->snd_cwnd = WINDOW_MIN;
	ca->parts = 0;
}

static void await_first_slowdown(struct sock *sk, struct ledbat_pp *ca)
{
	ca->state = STEADY;
	ca->next_slowdown = now_ms(sk) + BEFORE_SLOWDOWN * round_trip_ms(sk);
}

/* Steady from here; the next slowdown follows after nine lengths of the last. */
static void end_slowdown(struct sock *sk, struct ledbat_pp *ca)
{
	u32 now = now_ms(sk);

	ca->state = STEADY;
	ca->next_slowdown = now + LENGTHS_BETWEEN * max32(now - ca->slowdown_begin, 1);
}

static void grow(struct tcp_sock *tp, struct ledbat_pp *ca, u64 parts)
{
	u64 sum = ca->parts + parts;

	tp->snd_cwnd = (u32)min64(tp->snd_cwnd + (sum >> PART_SHIFT), tp->snd_cwnd_clamp);
	ca->parts = (u32)(sum & (PART_ONE - 1));
}

/* Once per ACK: a window's worth of ACKs applies the terms of a round trip. */
static void steer(struct sock *sk, struct ledbat_pp *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 delay = queueing_delay(ca), target = param(sk, target), over, shrink;
	u32 cwnd = max32(tp->snd_cwnd, 1), down;

	if (tcp_is_cwnd_limited(sk))
		grow(tp, ca, ((u64)acked << PART_SHIFT) / ((u64)cwnd * divisor(sk, ca)));
	if (delay <= target)
		return;
	over = min64(((delay - target) << PART_SHIFT) / target, PART_ONE / 2);
	shrink = ca->excess + acked * over;
	down = (u32)min64(shrink >> PART_SHIFT, cwnd / 2);
	ca->excess = (u32)(shrink & (PART_ONE - 1));
	tp->snd_cwnd = max32(cwnd - down, WINDOW_MIN);
	/* Or slow start would take back what the delay took. */
	tp->snd_ssthresh = min32(tp->snd_ssthresh, tp->snd_cwnd);
}

static void slow_start(struct sock *sk, struct ledbat_pp *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (ca->state == FIRST_SLOW_START && queueing_delay(ca) * 4ULL > param(sk, target) * 3) {
		tp->snd_ssthresh = max32(tp->snd_cwnd, WINDOW_MIN);
		return;
	}
	if (!tcp_is_cwnd_limited(sk))
		return;
	grow(tp, ca, ((u64)acked << PART_SHIFT) / divisor(sk, ca));
	if (tp->snd_cwnd > tp->snd_ssthresh)
		tp->snd_cwnd = tp->snd_ssthresh;
}

CC_CALLBACK(void, ledbat_pp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ledbat_pp *ca = cc_storage(sk);
	bool due;

	if (!ca)
		return;
	due = !before(now_ms(sk), ca->next_slowdown);
	if (ca->state == HELD) {
		tp->snd_cwnd = WINDOW_MIN;
		if (!due)
			return;
		ca->state = BACK;
	}
	if (tcp_in_slow_start(tp)) {
		slow_start(sk, ca, acked);
		if (tcp_in_slow_start(tp))
			return;
		if (ca->state == FIRST_SLOW_START)
			await_first_slowdown(sk, ca);
		else if (ca->state == BACK)
			end_slowdown(sk, ca);
		return;
	}
	/* A loss has ended the first slow start, or the way back. */
	if (ca->state == FIRST_SLOW_START)
		await_first_slowdown(sk, ca);
	else if (ca->state == BACK)
		end_slowdown(sk, ca);
	if (param(sk, slowdowns) && due && ca->state == STEADY && tp->snd_cwnd > WINDOW_MIN) {
		begin_slowdown(sk, ca);
		return;
	}
	steer(sk, ca, acked);
}

CC_CALLBACK(void, ledbat_pp_set_state, struct sock *sk, u8 new_state)
{
	struct ledbat_pp *ca = cc_storage(sk);

	if (ca && new_state == TCP_CA_Loss && ca->state == HELD)
		end_slowdown(sk, ca);
}

CC_CALLBACK(u32, ledbat_pp_ssthresh, struct sock *sk)
{
	struct ledbat_pp *ca = cc_storage(sk);

	/* The two packets of a slowdown say nothing of the path. */
	return ca && ca->state == HELD ? max32(ca->back_to / 2, WINDOW_MIN) : tcp_reno_ssthresh(sk);
}

CC_CALLBACK(u32, ledbat_pp_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(ledbat_pp, "LEDBAT++, draft-irtf-iccrg-ledbat-plus-plus", PARAMETERS,
	.init = OP(ledbat_pp_init),
	.ssthresh = OP(ledbat_pp_ssthresh),
	.cong_avoid = OP(ledbat_pp_cong_avoid),
	.set_state = OP(ledbat_pp_set_state),
	.pkts_acked = OP(ledbat_pp_pkts_acked),
	.undo_cwnd = OP(ledbat_pp_undo_cwnd))
