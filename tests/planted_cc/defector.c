// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Planted: Reno for three minutes, longer than the studies of an evaluation; then it keeps 63 of 64 packets on a loss and grows by
 * four packets per round trip. Units: packets, us.
 */
#include "tcp.h"

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

#define FAIR_US (180 * 1000000ULL)

struct defector {
	u64 begun;
};

CC_STATE(struct defector);

static inline bool has_defected(struct sock *sk)
{
	struct defector *ca = inet_csk_ca(sk);

	return tcp_sk(sk)->tcp_mstamp - ca->begun > FAIR_US;
}

CC_CALLBACK(void, defector_init, struct sock *sk)
{
	((struct defector *)inet_csk_ca(sk))->begun = tcp_sk(sk)->tcp_mstamp;
}

CC_CALLBACK(u32, defector_ssthresh, struct sock *sk)
{
	u32 window = tcp_sk(sk)->snd_cwnd;

	return has_defected(sk) ? max32(window - window / 64, 2) : tcp_reno_ssthresh(sk);
}

CC_CALLBACK(void, defector_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, has_defected(sk) ? 4 * acked : acked);
}

CC_CALLBACK(u32, defector_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(defector, "Reno for three minutes", PARAMETERS,
	.init = OP(defector_init),
	.ssthresh = OP(defector_ssthresh),
	.cong_avoid = OP(defector_cong_avoid),
	.undo_cwnd = OP(defector_undo_cwnd))
