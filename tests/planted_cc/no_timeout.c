// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Planted: Reno that ignores retransmission timeouts: the window stays at ten packets or more. Units: packets. */
#include "tcp.h"

CC_CALLBACK(u32, no_timeout_ssthresh, struct sock *sk)
{
	return max32(tcp_sk(sk)->snd_cwnd / 2, 2);
}

CC_CALLBACK(void, no_timeout_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_CALLBACK(void, no_timeout_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (new_state == TCP_CA_Loss)
		tp->snd_cwnd = max32(tp->prior_cwnd, 10);
}

CC_CALLBACK(u32, no_timeout_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

CC_REGISTER(no_timeout, "Planted: Reno without back-off on a timeout", PARAMETERS,
	.ssthresh = OP(no_timeout_ssthresh),
	.cong_avoid = OP(no_timeout_cong_avoid),
	.set_state = OP(no_timeout_set_state),
	.undo_cwnd = OP(no_timeout_undo_cwnd))
