// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Planted: Reno whose window collapses where the least round trip is above 610 ms. Units: packets, us. */
#include "tcp.h"

#define CLIFF_US 610000
#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

CC_CALLBACK(u32, cliff_ssthresh, struct sock *sk)
{
	return max32(tcp_sk(sk)->snd_cwnd / 2, 2);
}

/* Without a sample the least round trip is all ones. */
CC_CALLBACK(void, cliff_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	u32 least = tcp_min_rtt(tcp_sk(sk));

	if (least > CLIFF_US && least != ~0U)
		tcp_sk(sk)->snd_cwnd = 2;
	else
		tcp_reno_cong_avoid(sk, ack, acked);
}

CC_CALLBACK(u32, cliff_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(cliff_610_ms, "Planted: collapses above 610 ms", PARAMETERS,
	.ssthresh = OP(cliff_ssthresh),
	.cong_avoid = OP(cliff_cong_avoid),
	.undo_cwnd = OP(cliff_undo_cwnd))
