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
 *  - nearly empty is a queue with one more packet of the flow, too: an ACK of two segments that left together tells of the second, which the first
 *    delayed, while RTTmin is that of a segment alone
 *  - each time that 1 / delta has quadrupled, the window is cut to what the path holds without a queue, for three round trips. Beside others the flow
 *    then carries less. If it does not, the queue was its own, and delta is 1/2 again. The paper expects that a flow alone empties the queue
 *    within five round trips; it does not where the path holds less than 2.5 / delta packets, and no loss limits 1 / delta in a deep queue
 *  - RTTmin is kept for 32 round trips at least: to drain what slow start queued takes up to twenty
 *  - W does not fall below the delivery rate times RTTmin: below it the queue is empty, and v grew on the way back
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
	P(rtt_min_window, "us", 10000000, 1000000, 600000000, "time for which the least round trip is kept, or 32 round trips")
CC_PARAMETERS(PARAMETERS)

#define PART_SHIFT 20
#define PART_ONE (1U << PART_SHIFT)
#define MIN_WINDOW 4
#define RTT_MAX_ROUNDS 4
#define RTT_MIN_ROUNDS 32
#define ROUNDS_UNTIL_DOUBLING 3
#define ROUNDS_UNTIL_COMPETITIVE 5
#define GROWTH_UNTIL_PROBE 4
#define PROBE_ROUNDS 3
#define RATE_SHIFT 24
#define PACKETS_MAX 1000

struct copa {
	struct windowed_max least;    /* ~RTTmin, over ms */
	struct windowed_max standing; /* ~RTTstanding, over us */
	struct windowed_max largest;  /* RTTmax, over us */
	u32 velocity;
	u32 round_end;    /* `delivered` */
	u32 round_window; /* at its begin */
	u32 parts;        /* of a packet, by which the window is larger */
	u32 probed_rate;  /* at the begin of the last probe */
	u16 packets;      /* 1 / delta */
	u16 probed_packets;
	u8 probe_rounds; /* that remain */
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
		.probed_packets = (u16)param(sk, packets),
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
	u64 memory = max64(param(sk, rtt_min_window), (u64)RTT_MIN_ROUNDS * srtt);

	windowed_max_add(&c->least, (u32)(memory / USEC_PER_MSEC), now_ms(sk), ~rtt_us);
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

/* (dq - (RTTmax - RTTmin) / 10) W / RTTstanding <= 1: beside the paper's tenth, a packet of the flow itself. */
static bool is_nearly_empty(const struct copa *c, u32 cwnd)
{
	u32 largest = c->largest.best.value, least = ~c->least.best.value, delay = queueing_delay(c);
	u32 tenth = (largest > least ? largest - least : 0) / 10;

	return delay <= tenth || (u64)cwnd * (delay - tenth) <= standing_rtt(c);
}

/* W / RTTstanding <= 1 / (delta dq). */
static bool is_below_target(const struct copa *c, u32 cwnd)
{
	return (u64)cwnd * queueing_delay(c) <= (u64)c->packets * standing_rtt(c);
}

/* Delivered packets per 2^24 us; 0: unknown. */
static u32 delivery_rate(const struct rate_sample *rs)
{
	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return 0;
	return (u32)min64(((u64)rs->delivered << RATE_SHIFT) / (u64)rs->interval_us, ~0U);
}

/* Packets that the path holds at this rate, without a queue. */
static u64 pipe(const struct copa *c, u32 rate)
{
	return (u64)rate * ~c->least.best.value >> RATE_SHIFT;
}

static void begin_probe(struct sock *sk, struct copa *c, u32 rate)
{
	struct tcp_sock *tp = tcp_sk(sk);

	c->probe_rounds = PROBE_ROUNDS;
	c->probed_packets = c->packets;
	c->probed_rate = rate;
	c->packets = (u16)param(sk, packets);
	tp->snd_cwnd = max32((u32)min64(tp->snd_cwnd, pipe(c, rate)), MIN_WINDOW);
}

static void end_probe(struct copa *c, u32 rate)
{
	if ((u64)rate * 8 >= (u64)c->probed_rate * 7)
		c->rounds_without_empty = 0;
	else
		c->packets = c->probed_packets;
}

static void compete(struct sock *sk, struct copa *c, u32 rate)
{
	u32 fewest = (u32)param(sk, packets);

	if (c->probe_rounds) {
		if (--c->probe_rounds == 0)
			end_probe(c, rate);
	} else if (c->seen_loss) {
		c->packets = (u16)max32(c->packets / 2, fewest);
	} else if (c->packets >= GROWTH_UNTIL_PROBE * c->probed_packets) {
		begin_probe(sk, c, rate);
	} else {
		c->packets = (u16)min32(c->packets + 1U, max32(PACKETS_MAX, fewest));
	}
}

static void set_packets(struct sock *sk, struct copa *c, u32 rate)
{
	c->rounds_without_empty = (u8)(c->seen_empty ? 0 : min32(c->rounds_without_empty + 1U, ROUNDS_UNTIL_COMPETITIVE));
	if (param(sk, competitive) && c->rounds_without_empty >= ROUNDS_UNTIL_COMPETITIVE) {
		compete(sk, c, rate);
	} else {
		c->packets = c->probed_packets = (u16)param(sk, packets);
		c->probe_rounds = 0;
	}
	c->seen_empty = false;
	c->seen_loss = false;
}

static void end_round(struct sock *sk, struct copa *c, u32 rate)
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
	set_packets(sk, c, rate);
}

static void turn(struct copa *c, bool up)
{
	if (up == c->was_up)
		return;
	c->was_up = up;
	c->velocity = 1;
	c->rounds_one_way = 0;
}

static void steer(struct sock *sk, struct copa *c, u32 acked, u32 rate)
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
		sum = max64(sum - min64(step, sum), min64(sum, pipe(c, rate) << PART_SHIFT));
	else if (tcp_is_cwnd_limited(sk))
		sum += step;
	tp->snd_cwnd = (u32)(sum >> PART_SHIFT);
	c->parts = (u32)(sum & (PART_ONE - 1));
}

CC_CALLBACK(void, copa_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct copa *c = inet_csk_ca(sk);
	u32 rate = delivery_rate(rs);

	if (rs->losses > 0)
		c->seen_loss = true;
	if (rs->rtt_us > 0)
		measure(sk, c, (u32)min64((u64)rs->rtt_us, ~0U - 1));
	if (c->standing.best.value == 0)
		return;
	if (is_nearly_empty(c, tp->snd_cwnd))
		c->seen_empty = true;
	if (!before(rs->prior_delivered, c->round_end))
		end_round(sk, c, rate);
	steer(sk, c, rs->acked_sacked, rate);
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
