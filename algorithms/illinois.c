// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Illinois: losses say when to reduce the window, delay says by how much, and how fast to grow.
 *
 * Liu, Basar, Srikant: "TCP-Illinois: A Loss and Delay-Based Congestion Control Algorithm for High-Speed Networks", VALUETOOLS 2006;
 * Performance Evaluation 65(6-7), 2008 (equations 1 to 6, section 3.3).
 *
 *   W += alpha / W per packet acknowledged;   W -= beta W on a loss;   d: mean queueing delay of a round trip, dm: the largest one seen
 *   alpha = alpha_max for d <= dm/100, else k1 / (k2 + d), down to alpha_min at dm
 *   beta = beta_min for d <= dm/10, beta_max from 0.8 dm on, a straight line between
 *
 * Once alpha has left its maximum it returns after five round trips in a row with d <= dm/100. Windows below `threshold` are Reno's.
 *
 * Differences from the paper (as Linux):
 *  - d is the mean of a round trip, dm comes from the largest single sample
 *  - a timeout starts over: Reno's constants, until a round trip has a mean
 * Differences from Linux: the paper's threshold of 10 packets (15), and its five round trips in a row, where Linux counts all since alpha
 * left its maximum; begins with Reno's constants, as after a timeout (alpha_max, until the first round trip has a mean); round trips are
 * not cut at 3.4 s; ten bits of alpha and beta (7 and 6); growth keeps remainders, and counts what a recovery's end covers as delivered,
 * not once more.
 *
 * Units: packets; round trips in us; alpha << 10; beta in parts of 1024.
 */
#include "tcp.h"
#include "slow_start/parameters.h"

#define PARAMETERS(P)                                                                                                   \
	P(alpha_min, "1/1024", 307, 1, 1024, "packets per round trip at the longest delay")                                 \
	P(alpha_max, "1", 10, 1, 1000, "packets per round trip without a queue")                                            \
	P(beta_min, "1/1024", 128, 1, 512, "reduction by losses at short delays")                                           \
	P(beta_max, "1/1024", 512, 1, 1023, "reduction by losses at long delays")                                           \
	P(threshold, "packets", 10, 0, 1000000, "window below which Reno's constants hold")                                 \
	P(theta, "1", 5, 1, 100, "round trips without a queue until alpha is largest again")                                \
	SLOW_START_PARAMETERS(P, SLOW_START_CLASSIC)
CC_PARAMETERS(PARAMETERS)

#include "slow_start/state.h"

CC_STORAGE(struct slow_start)
#include "slow_start/slow_start.h"

#define ONE_SHIFT 10
#define ONE (1U << ONE_SHIFT)
/* Parts of dm: no queue; short; long. */
#define NO_QUEUE 100
#define SHORT 10
#define LONG(dm) ((u64)(dm) * 8 / 10)

struct illinois {
	u64 sum_rtt; /* of the round */
	u32 samples;
	u32 base_rtt;
	u32 max_rtt;
	u32 round_end; /* sequence number */
	u32 alpha;
	u32 beta;
	u32 rounds_without_queue;
	bool has_left_maximum;
};
CC_STATE(struct illinois);

static void start_over(struct illinois *ca)
{
	ca->alpha = ONE;
	ca->beta = ONE / 2;
	ca->rounds_without_queue = 0;
	ca->has_left_maximum = false;
}

static void start_round(struct sock *sk, struct illinois *ca)
{
	ca->round_end = tcp_sk(sk)->snd_nxt;
	ca->sum_rtt = 0;
	ca->samples = 0;
}

CC_CALLBACK(void, illinois_init, struct sock *sk)
{
	struct illinois *ca = inet_csk_ca(sk);

	*ca = (struct illinois){ .base_rtt = ~0U };
	start_over(ca);
	start_round(sk, ca);
	slow_start_init(sk);
}

CC_CALLBACK(void, illinois_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct illinois *ca = inet_csk_ca(sk);

	slow_start_acked(sk, sample);
	if (sample->rtt_us <= 0)
		return;
	ca->base_rtt = min32(ca->base_rtt, (u32)sample->rtt_us);
	ca->max_rtt = max32(ca->max_rtt, (u32)sample->rtt_us);
	ca->sum_rtt += (u32)sample->rtt_us;
	ca->samples++;
}

/* k1 / (k2 + d), with k1 and k2 such that it joins the maximum at d1 and the minimum at dm. */
static u32 alpha_of(struct sock *sk, struct illinois *ca, u32 d, u32 dm)
{
	u32 d1 = dm / NO_QUEUE, highest = (u32)param(sk, alpha_max) << ONE_SHIFT, least = (u32)param(sk, alpha_min);
	u64 span = (u64)(dm - d1) * least;

	if (d > d1) {
		ca->rounds_without_queue = 0;
		ca->has_left_maximum = true;
		return (u32)(span * highest / max64(span + (u64)(d - d1) * (highest - least), 1));
	}
	if (ca->has_left_maximum && ++ca->rounds_without_queue < param(sk, theta))
		return ca->alpha;
	ca->has_left_maximum = false;
	ca->rounds_without_queue = 0;
	return highest;
}

static u32 beta_of(struct sock *sk, u32 d, u32 dm)
{
	u64 d2 = dm / SHORT, d3 = LONG(dm), least = param(sk, beta_min), largest = max64(param(sk, beta_max), least);

	if (d <= d2)
		return (u32)least;
	if (d >= d3 || d3 <= d2)
		return (u32)largest;
	return (u32)(least + (largest - least) * (d - d2) / (d3 - d2));
}

static void update(struct sock *sk, struct illinois *ca)
{
	u32 d, dm = ca->max_rtt - ca->base_rtt;

	if (ca->samples == 0)
		return;
	d = min32((u32)(ca->sum_rtt / ca->samples) - ca->base_rtt, dm);
	if (tcp_sk(sk)->snd_cwnd < param(sk, threshold)) {
		ca->alpha = ONE;
		ca->beta = ONE / 2;
		return;
	}
	ca->alpha = alpha_of(sk, ca, d, dm);
	ca->beta = beta_of(sk, d, dm);
}

CC_CALLBACK(void, illinois_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct illinois *ca = inet_csk_ca(sk);

	if (before(ca->round_end, ack)) {
		update(sk, ca);
		start_round(sk, ca);
	}
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = slow_start_grow(sk, acked);
		if (acked == 0)
			return;
	}
	tcp_cong_avoid_ai(tp, max32((u32)(((u64)tp->snd_cwnd << ONE_SHIFT) / ca->alpha), 1), acked);
}

CC_CALLBACK(u32, illinois_ssthresh, struct sock *sk)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;
	struct illinois *ca = inet_csk_ca(sk);

	return slow_start_reduce(sk, max32(cwnd - (u32)((u64)cwnd * ca->beta >> ONE_SHIFT), 2));
}

CC_CALLBACK(void, illinois_set_state, struct sock *sk, u8 new_state)
{
	struct illinois *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	start_over(ca);
	start_round(sk, ca);
	slow_start_timeout(sk);
}

CC_CALLBACK(u32, illinois_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(illinois, "Illinois, Liu, Basar, Srikant 2008", PARAMETERS,
	.init = OP(illinois_init),
	.ssthresh = OP(illinois_ssthresh),
	.cong_avoid = OP(illinois_cong_avoid),
	.set_state = OP(illinois_set_state),
	.pkts_acked = OP(illinois_pkts_acked),
	.undo_cwnd = OP(illinois_undo_cwnd))
