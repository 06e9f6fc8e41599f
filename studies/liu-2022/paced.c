// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Paced: a sender of a known rate, whatever the network does. No congestion control: for a link that the sender has to itself, as the
 * satellite leg of a proxy whose operator knows what was sold.
 *
 *   pacing rate = rate
 *   window      = 2 rate x RTTmin, so that ACKs may be late by a round trip
 *
 * Before the first round trip is measured the window is the initial one. A loss and a timeout change nothing but what is repeated. There
 * is no paper.
 *
 * Units: rate in bit/s of segments' payload, windows in packets, times in us.
 */
#include "tcp.h"

#define PARAMETERS(P) P(rate, "bit/s", 10000000, 10000, 100000000000, "rate at which packets leave")
CC_PARAMETERS(PARAMETERS)

#define WINDOW_BDPS 2
#define WINDOW_MIN 4U
#define RTT_MAX_US (60 * USEC_PER_SEC)

static void apply(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = min64(param(sk, rate) / 8, sk->sk_max_pacing_rate);
	u32 rtt = tcp_min_rtt(tp);
	u64 packets = WINDOW_BDPS * rate * min32(rtt, RTT_MAX_US) / USEC_PER_SEC / max32(tp->mss_cache, 1);

	sk->sk_pacing_rate = rate;
	if (rtt != ~0U)
		tp->snd_cwnd = clamp32((u32)min64(packets, ~0U), WINDOW_MIN, max32(tp->snd_cwnd_clamp, WINDOW_MIN));
}

CC_CALLBACK(void, paced_init, struct sock *sk)
{
	apply(sk);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

CC_CALLBACK(void, paced_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	apply(sk);
}

CC_CALLBACK(u32, paced_ssthresh, struct sock *sk)
{
	return max32(tcp_sk(sk)->snd_cwnd, 2);
}

CC_CALLBACK(u32, paced_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

CC_REGISTER(paced, "Paced at a known rate, without congestion control", PARAMETERS,
	.init = OP(paced_init),
	.cong_control = OP(paced_cong_control),
	.ssthresh = OP(paced_ssthresh),
	.undo_cwnd = OP(paced_undo_cwnd))
