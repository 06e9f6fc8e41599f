// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reno: additive increase, multiplicative decrease.
 *
 * RFC 5681 (2009), "TCP Congestion Control"; with SACK under it, the baseline that studies call "SACK" or "NewReno"
 * (RFC 6582, 2012: recovery itself is the host's).
 *
 * Differences from the RFC (as Linux):
 *  - counts packets, not bytes, and all packets that an ACK covers (RFC 3465 with L unlimited)
 *  - halves the window, not the flight; the host approaches the threshold by proportional rate reduction (RFC 6937)
 *  - the window grows only where it was the limit (RFC 7661)
 *
 * Units: packets.
 */
#include "tcp.h"

#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

CC_CALLBACK(u32, reno_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

CC_CALLBACK(void, reno_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_CALLBACK(u32, reno_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(reno, "Reno, RFC 5681", PARAMETERS,
	.ssthresh = OP(reno_ssthresh),
	.cong_avoid = OP(reno_cong_avoid),
	.undo_cwnd = OP(reno_undo_cwnd))
