// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Planted: backs off by a tenth in each round trip that is an eighth above the least one, and so leaves the link to whoever fills
 * the queue. Units: packets, us.
 */
#include "tcp.h"

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

struct shy {
	u32 next; /* `delivered` at which the round trip ends */
};

CC_STATE(struct shy);

CC_CALLBACK(u32, shy_ssthresh, struct sock *sk)
{
	return max32(tcp_sk(sk)->snd_cwnd / 2, 2);
}

CC_CALLBACK(void, shy_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct shy *ca = inet_csk_ca(sk);
	u32 least = tcp_min_rtt(tp), smoothed = tp->srtt_us >> 3;

	if (smoothed <= least + least / 8) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	if (before(tp->delivered, ca->next))
		return;
	ca->next = tp->delivered + tp->snd_cwnd;
	tp->snd_cwnd = max32(tp->snd_cwnd - tp->snd_cwnd / 10, 2);
	tp->snd_ssthresh = tp->snd_cwnd;
}

CC_CALLBACK(u32, shy_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(delay_shy, "Planted: yields to any queue", PARAMETERS,
	.ssthresh = OP(shy_ssthresh),
	.cong_avoid = OP(shy_cong_avoid),
	.undo_cwnd = OP(shy_undo_cwnd))
