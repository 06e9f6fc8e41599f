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
#include "slow_start/parameters.h"

#define PARAMETERS(P) SLOW_START_PARAMETERS(P, SLOW_START_CLASSIC)
CC_PARAMETERS(PARAMETERS)

#include "slow_start/state.h"

CC_STORAGE(struct slow_start)
#include "slow_start/slow_start.h"

CC_CALLBACK(void, reno_init, struct sock *sk)
{
	slow_start_init(sk);
}

CC_CALLBACK(u32, reno_ssthresh, struct sock *sk)
{
	return slow_start_reduce(sk, tcp_reno_ssthresh(sk));
}

CC_CALLBACK(void, reno_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	slow_start_reno(sk, acked);
}

CC_CALLBACK(void, reno_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		slow_start_timeout(sk);
}

CC_CALLBACK(void, reno_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	slow_start_acked(sk, sample);
}

CC_CALLBACK(u32, reno_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(reno, "Reno, RFC 5681", PARAMETERS,
	.init = OP(reno_init),
	.ssthresh = OP(reno_ssthresh),
	.cong_avoid = OP(reno_cong_avoid),
	.set_state = OP(reno_set_state),
	.pkts_acked = OP(reno_pkts_acked),
	.undo_cwnd = OP(reno_undo_cwnd))
