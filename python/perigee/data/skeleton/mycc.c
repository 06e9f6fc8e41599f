// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mycc: additive increase and multiplicative decrease, with a decrease that can be set.
 *
 * Say here where the idea is from: authors, "title", where and when it was published; of an RFC its number and year.
 *
 *   slow start: W += 1 per packet acknowledged;   avoidance: W += 1 per window;   loss: W *= 1 - decrease
 *
 * Differences from the publication:
 *  - one line for each
 *
 * Units: windows in packets, `decrease` in 1/1024.
 */
#include "tcp.h"

/* Parameters of a user: name, unit, default, smallest, largest, and what it is. tcp.h lists the units. */
#define PARAMETERS(P) P(decrease, "1/1024", 307, 1, 1023, "share of the window that a loss takes")
CC_PARAMETERS(PARAMETERS)

/* State of a connection between two calls: at most 104 bytes, zero before init. No globals. */
struct mycc {
	u32 before_loss; /* window, packets */
};
CC_STATE(struct mycc);

/* The connection is established; the round trip of its handshake is in srtt_us >> 3. */
CC_CALLBACK(void, mycc_init, struct sock *sk)
{
	struct mycc *ca = inet_csk_ca(sk);

	ca->before_loss = 0;
}

/* Packets were lost: the threshold that the window goes down to, at least 2. */
CC_CALLBACK(u32, mycc_ssthresh, struct sock *sk)
{
	struct mycc *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	ca->before_loss = cwnd;
	return max32(cwnd - (u32)((u64)cwnd * param(sk, decrease) >> 10), 2);
}

/* `acked` packets were acknowledged, and the window may grow. */
CC_CALLBACK(void, mycc_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* A window that was not used up proves nothing. */
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (acked == 0)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/* The loss was none: the packets were only late. */
CC_CALLBACK(u32, mycc_undo_cwnd, struct sock *sk)
{
	struct mycc *ca = inet_csk_ca(sk);

	return max32(tcp_sk(sk)->snd_cwnd, ca->before_loss);
}

/* Its name, its description, and which callback is which: those of Linux's tcp_congestion_ops. */
CC_REGISTER(mycc, "Mycc, additive increase with a settable decrease", PARAMETERS,
	.init = OP(mycc_init),
	.ssthresh = OP(mycc_ssthresh),
	.cong_avoid = OP(mycc_cong_avoid),
	.undo_cwnd = OP(mycc_undo_cwnd))
