// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Planted: Reno without the question whether the window was used (RFC 7661), so that it grows with every acknowledgement while an
 * application sends little. Transfers without end are plain Reno. Units: packets.
 */
#include "tcp.h"

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

CC_CALLBACK(void, idle_growth_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 left = tcp_in_slow_start(tp) ? tcp_slow_start(tp, acked) : acked;

	if (left)
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, left);
}

CC_CALLBACK(u32, idle_growth_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

CC_CALLBACK(u32, idle_growth_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(idle_growth, "Reno that grows windows that nobody uses", PARAMETERS,
	.ssthresh = OP(idle_growth_ssthresh),
	.cong_avoid = OP(idle_growth_cong_avoid),
	.undo_cwnd = OP(idle_growth_undo_cwnd))
