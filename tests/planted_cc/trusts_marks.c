// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Planted: Reno that takes marks alone for congestion where ECN was agreed, and losses where it was not. Units: packets. */
#include "tcp.h"

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

CC_CALLBACK(u32, trusts_marks_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->lost_out && (tp->ecn_flags & TCP_ECN_OK))
		return tp->snd_cwnd;
	return max32(tp->snd_cwnd / 2, 2);
}

CC_CALLBACK(void, trusts_marks_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_CALLBACK(u32, trusts_marks_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(trusts_marks, "Planted: Reno that trusts in marks", PARAMETERS,
	.ssthresh = OP(trusts_marks_ssthresh),
	.cong_avoid = OP(trusts_marks_cong_avoid),
	.undo_cwnd = OP(trusts_marks_undo_cwnd))
