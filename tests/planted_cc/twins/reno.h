/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Reno for a twin that differs by one constant: KEPT, the window kept on a loss in 1/1024, and BEGUN, its counter's first value. */
#include "tcp.h"

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

CC_CALLBACK(void, twin_init, struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd_cnt = BEGUN;
}

CC_CALLBACK(u32, twin_ssthresh, struct sock *sk)
{
	return max32((u32)((u64)tcp_sk(sk)->snd_cwnd * KEPT / 1024), 2);
}

CC_CALLBACK(void, twin_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_CALLBACK(u32, twin_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

#define TWIN_OF_RENO(name, title)                                                                                       \
	CC_REGISTER(name, title, PARAMETERS,                                                                                \
		.init = OP(twin_init),                                                                                          \
		.ssthresh = OP(twin_ssthresh),                                                                                  \
		.cong_avoid = OP(twin_cong_avoid),                                                                              \
		.undo_cwnd = OP(twin_undo_cwnd))
