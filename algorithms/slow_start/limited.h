/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Limited slow start: beyond `max_ssthresh` the window grows by at most half of that per round trip.
 *
 * Floyd: RFC 3742 (2004), "Limited Slow-Start for TCP with Large Congestion Windows". K = cwnd / (max_ssthresh / 2), and the
 * window grows by 1/K per packet acknowledged. Differences from the RFC: windows are in packets, an increment is a whole
 * packet once K packets have been acknowledged, and an ACK counts for all packets that it covers. It holds in every slow
 * start. For Hybla: in place of 2^rho - 1 per ACK.
 */
#ifndef PERIGEE_SLOW_START_LIMITED_H
#define PERIGEE_SLOW_START_LIMITED_H

#include "slow_start/parameters.h"

static inline bool limited_holds(struct sock *sk)
{
	return param(sk, slow_start) == SLOW_START_LIMITED && tcp_sk(sk)->snd_cwnd > (u32)param(sk, max_ssthresh);
}

/* Returns the packets not used up: none. */
static inline u32 limited_grow(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_cong_avoid_ai(tp, max32(tp->snd_cwnd / max32((u32)param(sk, max_ssthresh) / 2, 1), 1), acked);
	tp->snd_cwnd = min32(tp->snd_cwnd, tp->snd_ssthresh);
	return 0;
}

#endif
