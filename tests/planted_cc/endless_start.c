// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Planted: never leaves slow start: a loss halves the window, and it doubles in every round trip again. Units: packets. */
#include "tcp.h"

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

CC_CALLBACK(u32, endless_ssthresh, struct sock *sk)
{
	return max32(tcp_sk(sk)->snd_cwnd / 2, 2);
}

CC_CALLBACK(void, endless_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_is_cwnd_limited(sk))
		tp->snd_cwnd = min32(tp->snd_cwnd + acked, tp->snd_cwnd_clamp);
}

CC_CALLBACK(u32, endless_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(endless_start, "Planted: never leaves slow start", PARAMETERS,
	.ssthresh = OP(endless_ssthresh),
	.cong_avoid = OP(endless_cong_avoid),
	.undo_cwnd = OP(endless_undo_cwnd))
