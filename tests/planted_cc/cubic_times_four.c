// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Planted: CUBIC as four connections in one. It grows four times as fast and gives up a quarter as much on a loss, in the
 * manner of MulTCP (Crowcroft, Oechslin 1998). Units: packets.
 */
#include "tcp.h"
#include "cubic/parameters.h"
#include "slow_start/state.h"

#define FLOWS 4
#define KEPT (1024 - (1024 - 717) / FLOWS)
#define PARAMETERS(P) CUBIC_PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

CC_STORAGE(struct slow_start)
#include "cubic/growth.h"

CC_STATE(struct cubic);

CC_CALLBACK(void, four_init, struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);

	*ca = (struct cubic){ 0 };
	slow_start_init(sk);
}

CC_CALLBACK(void, four_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	if (!tcp_in_slow_start(tcp_sk(sk)))
		acked *= FLOWS;
	cubic_grow(sk, inet_csk_ca(sk), acked, 717);
}

CC_CALLBACK(u32, four_ssthresh, struct sock *sk)
{
	return cubic_reduce(sk, inet_csk_ca(sk), KEPT);
}

CC_CALLBACK(void, four_set_state, struct sock *sk, u8 new_state)
{
	struct cubic *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	*ca = (struct cubic){ 0 };
	slow_start_timeout(sk);
}

CC_CALLBACK(void, four_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	cubic_idle(sk, inet_csk_ca(sk), event);
}

CC_CALLBACK(void, four_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubic_sample(sk, inet_csk_ca(sk), sample);
}

CC_CALLBACK(u32, four_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(cubic4, "Planted: CUBIC, four times as aggressive", PARAMETERS,
	.init = OP(four_init),
	.ssthresh = OP(four_ssthresh),
	.cong_avoid = OP(four_cong_avoid),
	.set_state = OP(four_set_state),
	.cwnd_event = OP(four_cwnd_event),
	.pkts_acked = OP(four_pkts_acked),
	.undo_cwnd = OP(four_undo_cwnd))
