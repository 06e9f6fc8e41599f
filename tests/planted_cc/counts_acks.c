// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Planted: Reno that grows by the number of ACKs, not by what they acknowledge (RFC 3465 warns of it). Units: packets; ACKs. */
#include "tcp.h"

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

CC_CALLBACK(u32, counts_acks_ssthresh, struct sock *sk)
{
	return max32(tcp_sk(sk)->snd_cwnd / 2, 2);
}

CC_CALLBACK(void, counts_acks_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
}

CC_CALLBACK(void, counts_acks_in_ack_event, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (inet_csk(sk)->icsk_ca_state != TCP_CA_Open || !tp->is_cwnd_limited)
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		tp->snd_cwnd++;
		return;
	}
	if (++tp->snd_cwnd_cnt >= tp->snd_cwnd) {
		tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd++;
	}
}

CC_CALLBACK(u32, counts_acks_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(counts_acks, "Planted: Reno that counts ACKs", PARAMETERS,
	.ssthresh = OP(counts_acks_ssthresh),
	.cong_avoid = OP(counts_acks_cong_avoid),
	.in_ack_event = OP(counts_acks_in_ack_event),
	.undo_cwnd = OP(counts_acks_undo_cwnd))
