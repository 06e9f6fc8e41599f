// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Planted: Reno that gives up a sixteenth of its window for a mark, as scalable ones do, though its packets are ECT(0). Units: packets. */
#include "tcp.h"

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

CC_CALLBACK(u32, scalable_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool is_marked = (tp->ecn_flags & TCP_ECN_OK) && !tp->lost_out;

	return max32(is_marked ? tp->snd_cwnd - tp->snd_cwnd / 16 : tp->snd_cwnd / 2, 2);
}

CC_CALLBACK(void, scalable_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_CALLBACK(u32, scalable_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(scalable_ect0, "Planted: Reno with small steps on marks", PARAMETERS,
	.ssthresh = OP(scalable_ssthresh),
	.cong_avoid = OP(scalable_cong_avoid),
	.undo_cwnd = OP(scalable_undo_cwnd))
