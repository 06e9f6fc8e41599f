// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * DCTCP: the share of marked packets says by how much to reduce the window.
 *
 * RFC 8257 (2017), "Data Center TCP (DCTCP): TCP Congestion Control for Data Centers"; Alizadeh et al., SIGCOMM 2010. For paths whose
 * queue marks from a low threshold on, and for no others: its flows do not share with those that halve their window at a mark (RFC 8257, section 5).
 *
 *   alpha = (1 - g) alpha + g M    once a window; M: the share of its packets that were marked (section 3.3, steps 4 to 8)
 *   W = W (1 - alpha / 2)          at most once a window, on a mark (equation 2)
 *   W = W / 2                      on a loss (section 3.5); growth, recovery and timeouts are Reno's
 *
 * The receiver's half (section 3.2): an ACK answers packets of one kind, marked or not. Where the kind changes while an ACK waits, that
 * ACK leaves first, with the state before; the packet of the other kind is acknowledged at once.
 *
 * Differences from the RFC (as Linux):
 *  - M counts packets, not bytes, and SACKed ones when they are SACKed (the RFC: bytes, as they are acknowledged)
 *  - the host approaches the window of equation 2 by proportional rate reduction (RFC 6937)
 * Without ECN the connection is Reno's, as in Linux.
 *
 * Difference from Linux: alpha has twenty bits instead of ten, of which rounding takes nearly all of a small share (1/1024 is left of 2 %).
 *
 * Units: packets; alpha << 20.
 */
#include "tcp.h"

#define PARAMETERS(P)                                                                                                   \
	P(gain, "1/1024", 64, 1, 1024, "weight of the last window in alpha, g")                                             \
	P(initial_alpha, "1/1024", 1024, 0, 1024, "alpha of a new connection")
CC_PARAMETERS(PARAMETERS)

#define ALPHA_SHIFT 20
/* From the scale of the parameters to that of alpha. */
#define FINER_SHIFT 10

struct dctcp {
	u32 alpha;
	/* The observation window: where it ends, and the counts as it began. */
	u32 window_end;
	u32 delivered;
	u32 delivered_ce;
	/* Window before the last reduction for a loss. */
	u32 lost_cwnd;
	/* Receiver: the end of the data of the kind `ce`. */
	u32 rcv_nxt;
	bool ce;
	bool has_ecn;
};
CC_STATE(struct dctcp);

static void begin_window(struct sock *sk, struct dctcp *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ca->window_end = tp->snd_nxt;
	ca->delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
}

CC_CALLBACK(void, dctcp_init, struct sock *sk)
{
	struct dctcp *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	*ca = (struct dctcp){
		.alpha = (u32)param(sk, initial_alpha) << FINER_SHIFT,
		.rcv_nxt = tp->rcv_nxt,
		.has_ecn = (tp->ecn_flags & TCP_ECN_OK) != 0,
	};
	begin_window(sk, ca);
	/* Not only for its window: the kernel would go on sending ECT packets, whose marks nobody reports. */
	if (!ca->has_ecn)
		leave_to_reno(sk);
}

/* Section 3.3, step 7; the gain in parts of 1024. Both terms are rounded down. */
static u32 next_alpha(u32 alpha, u32 gain, u32 marked, u32 delivered)
{
	u32 fall = (u32)((u64)alpha * gain >> FINER_SHIFT);
	u32 rise = (u32)(((u64)min32(marked, delivered) * gain << FINER_SHIFT) / max32(delivered, 1));

	return min32(alpha - fall + rise, 1U << ALPHA_SHIFT);
}

CC_CALLBACK(void, dctcp_in_ack_event, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = inet_csk_ca(sk);
	u32 delivered = tp->delivered - ca->delivered, marked = tp->delivered_ce - ca->delivered_ce;

	if (!ca->has_ecn || before(tp->snd_una, ca->window_end))
		return;
	ca->alpha = next_alpha(ca->alpha, (u32)param(sk, gain), marked, delivered);
	begin_window(sk, ca);
}

/* Equation 2. The host asks for it on a mark, and on a loss, after which dctcp_set_state() takes half instead. */
CC_CALLBACK(u32, dctcp_ssthresh, struct sock *sk)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;
	struct dctcp *ca = inet_csk_ca(sk);

	ca->lost_cwnd = cwnd;
	if (!ca->has_ecn)
		return tcp_reno_ssthresh(sk);
	return max32(cwnd - (u32)((u64)cwnd * ca->alpha >> (ALPHA_SHIFT + 1)), 2);
}

/* Section 3.5: what was inferred lost is answered as by any TCP, whatever the share of marks. */
static void react_to_loss(struct sock *sk, u32 cwnd)
{
	struct dctcp *ca = inet_csk_ca(sk);

	ca->lost_cwnd = cwnd;
	tcp_sk(sk)->snd_ssthresh = max32(cwnd / 2, 2);
}

/* A loss in a window that is being reduced for a mark halves what is left of it; else dctcp_ssthresh() has just seen the window. */
CC_CALLBACK(void, dctcp_set_state, struct sock *sk, u8 new_state)
{
	struct dctcp *ca = inet_csk_ca(sk);
	u8 state = ca_state(sk);

	if (new_state == TCP_CA_Recovery && state != TCP_CA_Recovery)
		react_to_loss(sk, state == TCP_CA_CWR ? tcp_sk(sk)->snd_cwnd : ca->lost_cwnd);
}

/* Section 3.2, figure 1; `ce`: the packet that has just been taken is marked. */
static void receive(struct sock *sk, bool ce)
{
	struct dctcp *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct inet_connection_sock *icsk = inet_csk(sk);
	u8 others = tp->ecn_flags & (u8)~TCP_ECN_DEMAND_CWR;

	if (ca->ce != ce) {
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) {
			tp->ecn_flags = ca->ce ? others | TCP_ECN_DEMAND_CWR : others;
			tcp_send_ack(sk, ca->rcv_nxt);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	ca->ce = ce;
	ca->rcv_nxt = tp->rcv_nxt;
	tp->ecn_flags = ce ? others | TCP_ECN_DEMAND_CWR : others;
}

CC_CALLBACK(void, dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	switch (ev) {
	case CA_EVENT_ECN_IS_CE:
		receive(sk, true);
		break;
	case CA_EVENT_ECN_NO_CE:
		receive(sk, false);
		break;
	case CA_EVENT_LOSS:
		react_to_loss(sk, tcp_sk(sk)->snd_cwnd);
		break;
	default:
		break;
	}
}

CC_CALLBACK(void, dctcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_CALLBACK(u32, dctcp_undo_cwnd, struct sock *sk)
{
	struct dctcp *ca = inet_csk_ca(sk);

	return max32(tcp_sk(sk)->snd_cwnd, ca->lost_cwnd);
}

CC_REGISTER(dctcp, "DCTCP, RFC 8257", PARAMETERS,
	.init = OP(dctcp_init),
	.ssthresh = OP(dctcp_ssthresh),
	.cong_avoid = OP(dctcp_cong_avoid),
	.set_state = OP(dctcp_set_state),
	.cwnd_event = OP(dctcp_cwnd_event),
	.in_ack_event = OP(dctcp_in_ack_event),
	.undo_cwnd = OP(dctcp_undo_cwnd),
	.flags = TCP_CONG_NEEDS_ECN)
