// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * FAST: the window goes to where `alpha` packets of the flow wait, by steps as large as the distance.
 *
 * Wei, Jin, Low, Hegde: "FAST TCP: Motivation, Architecture, Algorithms, Performance", IEEE/ACM ToN 14(6), 2006; Jin, Wei, Low: INFOCOM 2004.
 *
 *   W <- min(2 W, (1 - gamma) W + gamma (BaseRTT / RTT W + alpha)), in every other round trip; growth is spread over it
 *   RTT: mean with weight min(3 / W, 1/4) of each sample;   BaseRTT: least round trip of the connection
 *
 * Differences from the paper:
 *  - it begins with the host's slow start, which ends where more than `alpha` packets wait; the paper doubles by the equation alone, and only up
 *    to gamma alpha, or multiplies while nothing waits
 *  - losses are found and repaired as the host does, and halve the window; the paper's sender repairs with a window of its own
 *  - no pacing of its own: the paper's prototype spreads bursts
 *  - a window that was not used up does not grow
 *
 * Units: packets; round trips in us.
 */
#include "tcp.h"

#define PARAMETERS(P)                                                                                                   \
	P(alpha, "packets", 200, 1, 100000, "packets of the flow that wait in queues")                                      \
	P(gamma, "1/1024", 512, 1, 1024, "share of the distance that a step goes")
CC_PARAMETERS(PARAMETERS)

#define SHARE_SHIFT 10
#define SHARE_ONE (1U << SHARE_SHIFT)
#define MEAN_SHIFT 8
#define MIN_WINDOW 2
/* min(3 / W, 1/4) is 3 / max(W, 12). */
#define WEIGHT 3
#define WEIGHT_WINDOW 12

struct fast {
	u64 mean_rtt; /* in 1/256 us; 0: no sample */
	u32 base_rtt;
	u32 round_end; /* sequence number */
	u32 begin;     /* window before the step */
	u32 target;
	u32 acked; /* packets since then */
	bool steps; /* in this round trip */
};
CC_STATE(struct fast);

static void begin_round(struct tcp_sock *tp, struct fast *f)
{
	f->round_end = tp->snd_nxt;
	f->begin = f->target = tp->snd_cwnd;
	f->acked = 0;
}

CC_CALLBACK(void, fast_init, struct sock *sk)
{
	struct fast *f = inet_csk_ca(sk);

	*f = (struct fast){ .steps = true };
	begin_round(tcp_sk(sk), f);
}

CC_CALLBACK(void, fast_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct fast *f = inet_csk_ca(sk);
	u32 window = max32(tcp_sk(sk)->snd_cwnd, WEIGHT_WINDOW), rtt;
	u64 scaled;

	if (sample->rtt_us < 0)
		return;
	rtt = max32((u32)sample->rtt_us, 1);
	scaled = (u64)rtt << MEAN_SHIFT;
	f->base_rtt = f->base_rtt ? min32(f->base_rtt, rtt) : rtt;
	if (f->mean_rtt == 0)
		f->mean_rtt = scaled;
	else if (scaled > f->mean_rtt)
		f->mean_rtt += (scaled - f->mean_rtt) * WEIGHT / window;
	else
		f->mean_rtt -= (f->mean_rtt - scaled) * WEIGHT / window;
}

/* Packets of the window that the path holds without a queue: BaseRTT / RTT W. */
static u32 without_queue(const struct fast *f, u32 cwnd)
{
	return (u32)min64((u64)cwnd * ((u64)f->base_rtt << MEAN_SHIFT) / max64(f->mean_rtt, 1), cwnd);
}

static void step(struct sock *sk, struct fast *f)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 gamma = param(sk, gamma), alpha = param(sk, alpha);
	u64 next = (SHARE_ONE - gamma) * tp->snd_cwnd + gamma * (without_queue(f, tp->snd_cwnd) + alpha);

	f->target = max32((u32)min64(next >> SHARE_SHIFT, 2ULL * tp->snd_cwnd), MIN_WINDOW);
	if (f->target >= tp->snd_cwnd)
		return;
	tp->snd_cwnd = f->target;
	tp->snd_ssthresh = min32(tp->snd_ssthresh, f->target);
}

static void end_round(struct sock *sk, struct fast *f)
{
	struct tcp_sock *tp = tcp_sk(sk);

	begin_round(tp, f);
	if (tcp_in_slow_start(tp)) {
		if (tp->snd_cwnd - without_queue(f, tp->snd_cwnd) <= param(sk, alpha))
			return;
		tp->snd_ssthresh = tp->snd_cwnd;
		f->steps = true;
	}
	if (f->steps)
		step(sk, f);
	f->steps = !f->steps;
}

CC_CALLBACK(void, fast_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fast *f = inet_csk_ca(sk);

	if (before(f->round_end, ack) && f->mean_rtt)
		end_round(sk, f);
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
	} else if (f->target > f->begin) {
		f->acked = min32(f->acked + acked, f->begin);
		tp->snd_cwnd = f->begin + (u32)((u64)(f->target - f->begin) * f->acked / max32(f->begin, 1));
	}
	tp->snd_cwnd = min32(tp->snd_cwnd, tp->snd_cwnd_clamp);
}

CC_CALLBACK(void, fast_set_state, struct sock *sk, u8 new_state)
{
	struct fast *f = inet_csk_ca(sk);

	/* A step that a recovery or a timeout interrupted is not finished after it. */
	if (new_state == TCP_CA_Open || new_state == TCP_CA_Loss)
		begin_round(tcp_sk(sk), f);
}

CC_CALLBACK(u32, fast_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

CC_CALLBACK(u32, fast_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(fast, "FAST, Wei, Jin, Low and Hegde 2006", PARAMETERS,
	.init = OP(fast_init),
	.ssthresh = OP(fast_ssthresh),
	.cong_avoid = OP(fast_cong_avoid),
	.set_state = OP(fast_set_state),
	.pkts_acked = OP(fast_pkts_acked),
	.undo_cwnd = OP(fast_undo_cwnd))
