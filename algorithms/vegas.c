// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Vegas: the window follows the number of packets that wait in queues, measured by the round trip.
 *
 * Brakmo, O'Malley, Peterson: "TCP Vegas: New Techniques for Congestion Detection and Avoidance", SIGCOMM 1994;
 * Brakmo, Peterson: "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC 13(8), 1995.
 *
 *   Diff = (W / BaseRTT - W / RTT) BaseRTT, once per round trip
 *   avoidance: Diff < alpha: W += 1;   Diff > beta: W -= 1;   slow start ends where Diff > gamma
 *
 * Differences from the paper (as Linux):
 *  - Diff is W (RTT - BaseRTT) / BaseRTT, the backlog relative to the base round trip; RTT is the round's least
 *  - slow start doubles every round trip; `alternate` turns on the paper's every other one
 *  - at most two samples in a round: that round is Reno's; outside the Open state all are
 *  - losses are found and repaired as the host does, and halve the window
 *  - a restart after idle time forgets BaseRTT
 *  - the window moves whether or not it was the limit
 * Linux 2.6.20 reckoned with what was sent in the round, S (1 - BaseRTT / RTT), in halves of a packet, and left slow start
 * with a threshold of two packets, which never rose: `backlog` and `slow_start_end`.
 * Difference from Linux: the product in Diff has 64 bits; with 32, a backlog of 4295 packet-seconds counts as none.
 *
 * Units: packets; round trips in us, plus one, so that none is zero.
 */
#include "tcp.h"

#define PARAMETERS(P)                                                                                                   \
	P(alpha, "packets", 2, 0, 1000000, "backlog below which the window grows")                                          \
	P(beta, "packets", 4, 0, 1000000, "backlog above which the window shrinks")                                         \
	P(gamma, "packets", 1, 0, 1000000, "backlog that ends slow start")                                                  \
	P(alternate, "switch", 0, 0, 1, "slow start grows every other round trip, as in the paper")                         \
	P(backlog, "window|sent", 0, 0, 1, "what Diff is reckoned of: the window, or what left in the round that ended")    \
	P(slow_start_end, "threshold|final", 0, 0, 1, "threshold of a slow start that ended: the window, or two packets")
CC_PARAMETERS(PARAMETERS)

enum { WINDOW, SENT };
enum { THRESHOLD, FINAL };

#define NO_RTT 0x7fffffffU
/* With fewer samples a round says nothing of its least round trip: delayed ACKs may have held back each. */
#define MIN_SAMPLES 3

struct vegas {
	u32 base_rtt;
	u32 round_rtt; /* least of the round */
	u32 samples;   /* of the round */
	u32 round_begin; /* sequence number */
	u32 round_end;   /* sequence number */
	bool active;
	bool held;     /* this round of slow start does not grow */
};
CC_STATE(struct vegas);

static void clear_round(struct vegas *ca)
{
	ca->samples = 0;
	ca->round_rtt = NO_RTT;
}

static void activate(struct sock *sk, struct vegas *ca)
{
	ca->active = true;
	ca->round_begin = ca->round_end = tcp_sk(sk)->snd_nxt;
	clear_round(ca);
}

static void restart(struct sock *sk)
{
	struct vegas *ca = inet_csk_ca(sk);

	*ca = (struct vegas){ .base_rtt = NO_RTT };
	activate(sk, ca);
}

CC_CALLBACK(void, vegas_init, struct sock *sk)
{
	restart(sk);
}

CC_CALLBACK(void, vegas_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		restart(sk);
}

CC_CALLBACK(void, vegas_set_state, struct sock *sk, u8 new_state)
{
	struct vegas *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Open)
		activate(sk, ca);
	else
		ca->active = false;
}

CC_CALLBACK(void, vegas_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct vegas *ca = inet_csk_ca(sk);
	u32 rtt;

	if (sample->rtt_us < 0)
		return;
	rtt = (u32)sample->rtt_us + 1;
	ca->base_rtt = min32(ca->base_rtt, rtt);
	ca->round_rtt = min32(ca->round_rtt, rtt);
	ca->samples++;
}

static void lower_threshold(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 most = param(sk, slow_start_end) == FINAL ? 2 : tp->snd_cwnd;

	tp->snd_ssthresh = max32(min32(tp->snd_ssthresh, most), 2);
}

static void slow_start(struct sock *sk, struct vegas *ca, u32 acked)
{
	if (!(param(sk, alternate) && ca->held))
		tcp_slow_start(tcp_sk(sk), acked);
}

/* The backlog of a round, in halves of a packet. */
static u64 waiting_2(struct sock *sk, u64 packets, u32 base, u32 rtt)
{
	if (param(sk, backlog) == SENT)
		return packets * 2 - packets * base * 2 / rtt;
	return packets * (rtt - base) / base * 2;
}

/* The decision of a round trip. */
static void adjust(struct sock *sk, struct vegas *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 base = max32(ca->base_rtt, 1), rtt = max32(ca->round_rtt, base), cwnd = tp->snd_cwnd;
	u32 sent = (ca->round_end - ca->round_begin) / max32(tp->mss_cache, 1);
	u64 packets = param(sk, backlog) == SENT ? sent : cwnd, backlog_2 = waiting_2(sk, packets, base, rtt);

	if (tcp_in_slow_start(tp) && backlog_2 > 2 * param(sk, gamma)) {
		/* Down to what fits the path without a queue. */
		tp->snd_cwnd = min32(cwnd, (u32)(packets * base / rtt) + 1);
		lower_threshold(sk);
	} else if (tcp_in_slow_start(tp)) {
		slow_start(sk, ca, acked);
	} else if (backlog_2 > 2 * param(sk, beta)) {
		tp->snd_cwnd--;
		if (param(sk, slow_start_end) == THRESHOLD)
			lower_threshold(sk);
	} else if (backlog_2 < 2 * param(sk, alpha)) {
		tp->snd_cwnd++;
	}
	tp->snd_cwnd = min32(max32(tp->snd_cwnd, 2), tp->snd_cwnd_clamp);
	if (param(sk, slow_start_end) == FINAL)
		return;
	/* The threshold remembers three quarters of the window, as it does whenever the host asks for it. */
	tp->snd_ssthresh = max32(tp->snd_ssthresh, (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2));
}

CC_CALLBACK(void, vegas_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas *ca = inet_csk_ca(sk);

	if (!ca->active) {
		tcp_reno_cong_avoid(sk, ack, acked);
	} else if (before(ca->round_end, ack)) {
		if (ca->samples < MIN_SAMPLES)
			tcp_reno_cong_avoid(sk, ack, acked);
		else
			adjust(sk, ca, acked);
		ca->held = !ca->held;
		ca->round_begin = ca->round_end;
		ca->round_end = tp->snd_nxt;
		clear_round(ca);
	} else if (tcp_in_slow_start(tp)) {
		slow_start(sk, ca, acked);
	}
}

CC_CALLBACK(u32, vegas_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

CC_CALLBACK(u32, vegas_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(vegas, "Vegas, Brakmo and Peterson 1994", PARAMETERS,
	.init = OP(vegas_init),
	.ssthresh = OP(vegas_ssthresh),
	.cong_avoid = OP(vegas_cong_avoid),
	.set_state = OP(vegas_set_state),
	.cwnd_event = OP(vegas_cwnd_event),
	.pkts_acked = OP(vegas_pkts_acked),
	.undo_cwnd = OP(vegas_undo_cwnd))
