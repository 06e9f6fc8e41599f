/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CUBIC from its shared parts, for a twin that differs by one constant: NAME(callback), TWIN_REGISTER, BETA. Units: packets. */
#include "tcp.h"
#include "cubic/parameters.h"
#include "slow_start/state.h"

#ifndef BETA
#define BETA 717 /* window kept on a loss, 1/1024 */
#endif

CC_PARAMETERS(CUBIC_PARAMETERS)
CC_STORAGE(struct slow_start)
#include "cubic/growth.h"

CC_STATE(struct cubic);

CC_CALLBACK(void, twin_init, struct sock *sk)
{
	*(struct cubic *)inet_csk_ca(sk) = (struct cubic){ 0 };
	slow_start_init(sk);
	FIRST(sk)
}

CC_CALLBACK(u32, twin_ssthresh, struct sock *sk)
{
	return cubic_reduce(sk, inet_csk_ca(sk), BETA);
}

CC_CALLBACK(void, twin_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	cubic_grow(sk, inet_csk_ca(sk), acked, BETA);
}

CC_CALLBACK(void, twin_set_state, struct sock *sk, u8 state)
{
	if (state == TCP_CA_Loss) {
		*(struct cubic *)inet_csk_ca(sk) = (struct cubic){ 0 };
		slow_start_timeout(sk);
	}
}

CC_CALLBACK(void, twin_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	cubic_idle(sk, inet_csk_ca(sk), event);
}

CC_CALLBACK(void, twin_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubic_sample(sk, inet_csk_ca(sk), sample);
}

CC_CALLBACK(u32, twin_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

#define TWIN_OF_CUBIC(name, title)                                                                                      \
	CC_REGISTER(name, title, CUBIC_PARAMETERS,                                                                          \
		.init = OP(twin_init),                                                                                          \
		.ssthresh = OP(twin_ssthresh),                                                                                  \
		.cong_avoid = OP(twin_cong_avoid),                                                                              \
		.set_state = OP(twin_set_state),                                                                                \
		.cwnd_event = OP(twin_cwnd_event),                                                                              \
		.pkts_acked = OP(twin_pkts_acked),                                                                              \
		.undo_cwnd = OP(twin_undo_cwnd))
