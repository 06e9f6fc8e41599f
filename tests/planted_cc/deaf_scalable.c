// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Planted: says that it is scalable, so that its packets carry ECT(1), and ignores ECN marks. Units: packets. */
#include "tcp.h"

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

/* Where nothing was lost, the reduction is for a mark. */
CC_CALLBACK(u32, deaf_scalable_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return tp->lost_out ? max32(tp->snd_cwnd / 2, 2) : tp->snd_cwnd;
}

CC_CALLBACK(void, deaf_scalable_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_CALLBACK(u32, deaf_scalable_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(deaf_scalable, "Planted: scalable by its word, and deaf to marks", PARAMETERS,
	.flags = TCP_CONG_NEEDS_ECN,
	.ssthresh = OP(deaf_scalable_ssthresh),
	.cong_avoid = OP(deaf_scalable_cong_avoid),
	.undo_cwnd = OP(deaf_scalable_undo_cwnd))
