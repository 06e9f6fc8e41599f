/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * HyStart++: a round trip that grew turns slow start into a conservative one, which ends it or proves the growth wrong.
 *
 * RFC 9406 (2023). Differences: an ACK counts for all packets it covers, without the limit L; the variant serves the first
 * slow start, and a loss ends it. For Hybla: conservative slow start divides 2^rho - 1 per ACK by four as well.
 */
#ifndef PERIGEE_SLOW_START_HYSTART_PLUS_H
#define PERIGEE_SLOW_START_HYSTART_PLUS_H

#include "slow_start/state.h"

/* RFC 9406, 4.3: N_RTT_SAMPLE, CSS_ROUNDS; CSS_GROWTH_DIVISOR is four, the gain of one quarter. */
#define CSS_SAMPLES 8
#define CSS_ROUNDS 5
#define CSS_GAIN 1U

static inline void hystart_plus(struct sock *sk, struct slow_start *ss, u32 delay)
{
	if (before(ss->round_end, tcp_sk(sk)->snd_una)) {
		slow_start_round(sk, ss);
		if (ss->base_rtt && --ss->rounds == 0) {
			slow_start_end(sk, ss);
			return;
		}
	}
	ss->round_rtt = min32(ss->round_rtt, delay);
	if (ss->samples < CSS_SAMPLES)
		ss->samples++;
	if (ss->samples < CSS_SAMPLES)
		return;
	if (ss->base_rtt) {
		if (ss->round_rtt < ss->base_rtt)
			ss->base_rtt = 0;
	} else if (ss->last_rtt != ~0U && ss->round_rtt >= ss->last_rtt + slow_start_eta(ss->last_rtt)) {
		ss->base_rtt = ss->round_rtt;
		/* The round at hand is one of them. */
		ss->rounds = CSS_ROUNDS;
	}
}

#endif
