// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Copa: the rate follows 1 / (delta dq), dq the queueing delay: a few packets of each flow wait.
 *
 * Arun, Balakrishnan: "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018, sections 2 and 3.
 *
 *   target rate: 1 / (delta dq);   dq = RTTstanding - RTTmin;   rate: W / RTTstanding
 *   rate up to the target: W += v / (delta W) per packet acknowledged;   above it: W -= v / (delta W)
 *   v doubles each round trip once the window has moved one way for three, and is 1 again when it turns
 *   RTTstanding: least round trip of the last srtt / 2;   RTTmin: of the last 10 s (`rtt_min_window`);   pacing: 2 W / RTTstanding
 *   no nearly empty queue for five round trips (dq < (RTTmax - RTTmin) / 10): somebody fills it, so 1 / delta rises by one per round trip, and a
 *   loss halves it; else delta is 1/2
 *
 * Differences from the paper:
 *  - v has a limit, with which a round trip changes the window by half at the most
 *  - after a timeout the window starts as the host sets it, in slow start
 *  - the window is at least four packets
 *
 * Units: packets; round trips in us; a minimum is the maximum of ~RTT.
 */
#include "windowed_max.h"

#define PARAMETERS(P)                                                                                                   \
	P(packets, "packets", 2, 1, 1000, "packets that wait, 1 / delta, where nobody else fills the queue")                \
	P(competitive, "switch", 1, 0, 1, "let more wait where somebody else fills the queue")                              \
	P(rtt_min_window, "us", 10000000, 1000000, 600000000, "time for which the least round trip is kept")
CC_PARAMETERS(PARAMETERS)

#define PART_SHIFT 20
#define PART_ONE (1U << PART_SHIFT)
#define MIN_WINDOW 4
#define RTT_MAX_ROUNDS 4
#define ROUNDS_UNTIL_DOUBLING 3
#define ROUNDS_UNTIL_COMPETITIVE 5
#define PACKETS_MAX 1000

struct copa {
	struct windowed_max least;    /* ~RTTmin, over ms */
	struct windowed_max standing; /* ~RTTstanding, over us */
	struct windowed_max largest;  /* RTTmax, over us */
	u32 velocity;
	u32 round_end;    /* `delivered` */
	u32 round_window; /* at its begin */
	u32 parts;        /* of a packet, by which the window is larger */
	u16 packets;      /* 1 / delta */
	u8 rounds_one_way;
	u8 rounds_without_empty;
	bool was_up;
	bool seen_empty;
	bool slow_start;
	bool seen_loss;
};
CC_STATE(struct copa);

CC_CALLBACK(void, copa_init, struct sock *sk)
{
	struct copa *c = inet_csk_ca(sk);

	*c = (struct copa){
		.velocity = 1,
		.packets = (u16)param(sk, packets),
		.round_end = tcp_sk(sk)->delivered,
		.round_window = tcp_sk(sk)->snd_cwnd,
		.slow_start = true,
	};
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

static void measure(struct sock *sk, struct copa *c, u32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now_us = (u32)tp->tcp_mstamp, srtt = max32(tp->srtt_us >> 3, 1);

	windowed_max_add(&c->least, (u32)(param(sk, rtt_min_window) / USEC_PER_MSEC), now_ms(sk), ~rtt_us);
	windowed_max_add(&c->standing, srtt / 2, now_us, ~rtt_us);
	windowed_max_add(&c->largest, RTT_MAX_ROUNDS * srtt, now_us, rtt_us);
}

static u32 standing_rtt(const struct copa *c)
{
	return max32(~c->standing.best.value, 1);
}

static u32 queueing_delay(const struct copa *c)
{
	u32 standing = standing_rtt(c), least = ~c->least.best.value;

	return standing > least ? standing - least : 0;
}

static bool is_nearly_empty(const struct copa *c)
{
	u32 largest = c->largest.best.value, least = ~c->least.best.value;

	return queueing_delay(c) <= (largest > least ? largest - least : 0) / 10;
}

/* W / RTTstanding <= 1 / (delta dq). */
static bool is_below_target(const struct copa *c, u32 cwnd)
{
	return (u64)cwnd * queueing_delay(c) <= (u64)c->packets * standing_rtt(c);
}

static void set_packets(struct sock *sk, struct copa *c)
{
	u32 fewest = (u32)param(sk, packets);

	c->rounds_without_empty = (u8)(c->seen_empty ? 0 : min32(c->rounds_without_empty + 1U, ROUNDS_UNTIL_COMPETITIVE));
	if (!param(sk, competitive) || c->rounds_without_empty < ROUNDS_UNTIL_COMPETITIVE)
		c->packets = (u16)fewest;
	else if (c->seen_loss)
		c->packets = (u16)max32(c->packets / 2, fewest);
	else
		c->packets = (u16)min32(c->packets + 1U, max32(PACKETS_MAX, fewest));
	c->seen_empty = false;
	c->seen_loss = false;
}

static void end_round(struct sock *sk, struct copa *c)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tp->snd_cwnd;
	bool up = cwnd > c->round_window;

	if (up == c->was_up && cwnd != c->round_window) {
		c->rounds_one_way = (u8)min32(c->rounds_one_way + 1U, 0xff);
		if (c->rounds_one_way >= ROUNDS_UNTIL_DOUBLING)
			c->velocity *= 2;
	} else {
		c->rounds_one_way = 0;
		c->velocity = 1;
	}
	/* Half of the window per round trip at the most. */
	c->velocity = max32(min32(c->velocity, cwnd / (2U * max32(c->packets, 1))), 1);
	c->was_up = up;
	c->round_window = cwnd;
	c->round_end = tp->delivered;
	set_packets(sk, c);
}

static void turn(struct copa *c, bool up)
{
	if (up == c->was_up)
		return;
	c->was_up = up;
	c->velocity = 1;
	c->rounds_one_way = 0;
}

static void steer(struct sock *sk, struct copa *c, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tp->snd_cwnd;
	bool up = is_below_target(c, cwnd);
	u64 step = ((u64)acked * c->velocity * c->packets << PART_SHIFT) / max32(cwnd, 1), sum;

	if (c->slow_start && !up)
		c->slow_start = false;
	if (c->slow_start) {
		tp->snd_cwnd = cwnd + (tcp_is_cwnd_limited(sk) ? acked : 0);
		return;
	}
	turn(c, up);
	sum = ((u64)cwnd << PART_SHIFT) + c->parts;
	if (!up)
		sum -= min64(step, sum);
	else if (tcp_is_cwnd_limited(sk))
		sum += step;
	tp->snd_cwnd = (u32)(sum >> PART_SHIFT);
	c->parts = (u32)(sum & (PART_ONE - 1));
}

CC_CALLBACK(void, copa_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct copa *c = inet_csk_ca(sk);

	if (rs->losses > 0)
		c->seen_loss = true;
	if (rs->rtt_us > 0)
		measure(sk, c, (u32)min64((u64)rs->rtt_us, ~0U - 1));
	if (c->standing.best.value == 0)
		return;
	if (is_nearly_empty(c))
		c->seen_empty = true;
	if (!before(rs->prior_delivered, c->round_end))
		end_round(sk, c);
	steer(sk, c, rs->acked_sacked);
	tp->snd_cwnd = min32(max32(tp->snd_cwnd, MIN_WINDOW), tp->snd_cwnd_clamp);
	sk->sk_pacing_rate =
		min64((u64)tp->snd_cwnd * tp->mss_cache * 2 * USEC_PER_SEC / standing_rtt(c), sk->sk_max_pacing_rate);
}

CC_CALLBACK(u32, copa_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

CC_CALLBACK(void, copa_set_state, struct sock *sk, u8 new_state)
{
	struct copa *c = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	c->slow_start = true;
	c->velocity = 1;
	c->rounds_one_way = 0;
}

CC_CALLBACK(u32, copa_undo_cwnd, struct sock *sk)
{
	return max32(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}

CC_REGISTER(copa, "Copa, Arun and Balakrishnan 2018", PARAMETERS,
	.init = OP(copa_init),
	.cong_control = OP(copa_cong_control),
	.ssthresh = OP(copa_ssthresh),
	.set_state = OP(copa_set_state),
	.undo_cwnd = OP(copa_undo_cwnd))
