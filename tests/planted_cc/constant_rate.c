// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Planted: sends at one rate, whatever is lost, marked or delayed. Units: packets, bit/s. */
#include "tcp.h"

#define PARAMETERS(P) P(rate, "bit/s", 12000000, 1000, 4000000000, "rate of the sender")
CC_PARAMETERS(PARAMETERS)

static void keep(struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd = 4000;
	sk->sk_pacing_rate = param(sk, rate) / 8;
}

CC_CALLBACK(void, constant_init, struct sock *sk)
{
	sk->sk_pacing_status = SK_PACING_NEEDED;
	keep(sk);
}

CC_CALLBACK(u32, constant_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

CC_CALLBACK(void, constant_set_state, struct sock *sk, u8 new_state)
{
	keep(sk);
}

CC_CALLBACK(void, constant_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	keep(sk);
}

CC_CALLBACK(u32, constant_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

CC_REGISTER(constant_rate, "Planted: a constant rate", PARAMETERS,
	.init = OP(constant_init),
	.ssthresh = OP(constant_ssthresh),
	.set_state = OP(constant_set_state),
	.cong_control = OP(constant_cong_control),
	.undo_cwnd = OP(constant_undo_cwnd))
