// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * PCC Vivace: tries rates and moves towards the one of highest utility.
 *
 * Dong, Meng, Zarchy, Arslan, Gilad, Godfrey, Schapira: "PCC Vivace: Online-Learning Congestion Control", NSDI 2018.
 *
 *   u(x) = x^0.9 - 900 x dRTT/dT - 11.35 x L      x: sending rate, Mbit/s; L: lost share (the latency utility)
 *
 * Starting doubles the rate each monitor interval until u falls. Then pairs of intervals at r (1 +- 5 %) give the
 * gradient of u; the rate follows it, with a step that grows while the direction holds (confidence amplifier) within a
 * bound that grows when it is hit (dynamic change boundary), until u falls, and pairs are tried again.
 *
 * Differences from the paper:
 *  - an interval is a smoothed round trip while starting, then one without the queue, at least 10 ms and five of the trains
 *    that a host sends at once; x is the rate asked for (as in WebRTC's implementation), unless what left differs
 *    from it by more than a train. A decision takes two pairs that agree, and steps continue without new pairs while each
 *    brings more utility (as the user-space reference)
 *  - an interval that the application or a full window of the peer held back tells nothing of the path, which the paper
 *    does not discuss, and decides nothing: a slow reader would lower the rate for good. Where the peer's window is full of
 *    a queue, or the congestion window is the limit, which is this file's own and bounds a queue, the rate is lowered to
 *    what was sent
 *  - the paper ignores small gradients and fits them by regression. A satellite's noise is larger than what a pair does
 *    to a queue, so the pairs as a whole are judged: what probes of equal rate differ by is noise, and gradients count
 *    beyond one and a half mean deviations of it. Their mean is the path's; what grows with the rate is the response.
 *    Sending more never makes a queue grow less, and a step is expected to do what the pairs said
 *  - what is ignored is not lost: when the round trip has risen over many intervals by more than noise, that is a queue,
 *    and its response is that of one
 *  - starting holds at the last good rate after a bad result, until the interval after it, which is under way, has told
 *    the same. It looks at an interval as soon as half of it is acknowledged, since a round trip more at twice the rate
 *    is a long queue on a satellite
 *  - a window of twice the path at the current rate bounds the queue of a path whose rate falls at once
 *  - a timeout halves the rate and starts pairs anew
 * The authors' two public implementations differ from it and from each other: user space takes max(0, dRTT/dT) (`drain_reward` off)
 * and three pairs; what their kernel module does otherwise are parameters (docs/models/congestion-control.md).
 *
 * Units: rates in bytes/s, utility's x in Mbit/s << 10, utilities << 10, gradients of the round trip << 16, times in us.
 */
#include "tcp.h"

#define PARAMETERS(P)                                                                                                   \
	P(exponent, "1/1000", 900, 100, 1000, "of the rate in the utility")                                                 \
	P(latency, "1", 900, 0, 100000, "weight of the round trip's gradient")                                              \
	P(loss, "1/100", 1135, 0, 1000000, "weight of the lost share")                                                      \
	P(drain_reward, "switch", 1, 0, 1, "a falling round trip counts as useful")                                         \
	P(initial, "packets", 25, 2, 10000, "packets per round trip in the first interval")                                 \
	P(start_gain, "1/1024", 2048, 1100, 4096, "rate over rate of successive intervals in the starting phase")           \
	P(probe, "1/1000", 50, 5, 250, "distance of a pair's rates from the rate between them")                             \
	P(step, "1/1024", 1024, 1, 1048576, "first step per unit of gradient, Mbit/s")                                      \
	P(boundary, "1/1000", 50, 5, 1000, "first bound of a step, share of the rate")                                      \
	P(boundary_step, "1/1000", 100, 5, 1000, "growth of the bound when it is hit")                                      \
	P(gradient_floor, "1/1000", 10, 0, 1000, "gradients of the round trip up to here are zero")                         \
	P(trend_floor, "1/1000", 15, 0, 1000, "a rise of the round trip by up to this share of it is none")                 \
	P(initial_rate, "bit/s", 0, 0, 1000000000, "rate of the first interval; 0: by `initial`")                           \
	P(start, "ahead|waits", 0, 0, 1, "starting rates follow each other, or each waits for the result of the last")      \
	P(start_utility, "whole|rise", 0, 0, 1, "rise: losses below 10 % and falling round trips do not count")             \
	P(interval, "base|smoothed", 0, 0, 1, "a round trip without the queue, or a smoothed one and at least 50 packets")  \
	P(gradient, "regression|ends", 0, 0, 1, "of the round trip: all samples, or first and last smoothed ones")          \
	P(noise, "learned|floor", 0, 0, 1, "noise of gradients: by probes of equal rate, or gradient_floor")                \
	P(moves, "both_ways|upwards", 0, 0, 1, "after pairs: either way; or up from the better rate, by 2.2 % at least")    \
	P(confidence, "paper|linear", 0, 0, 1, "factors of successive steps: 1, 2, 3, 5, 7, or 2, 3, 4, 5, 6")              \
	P(window, "base|smoothed", 0, 0, 1, "round trip of which the window holds twice the rate")                          \
	P(limited, "ignored|counted", 0, 0, 1, "intervals that an application or a window held back")                       \
	P(timeout, "halves|keeps", 0, 0, 1, "what a timeout does to the rate")
CC_PARAMETERS(PARAMETERS)

#include "vivace/start.h"

#define PACKETS_MIN 10
#define PACKETS_MIN_SMOOTHED 50
#define TRAINS_MIN 5
/* More than any window. */
#define NO_WINDOW (1U << 30)
#define INTERVAL_MIN_US 10000U
#define INTERVAL_MAX_US 10000000U
/* Pacing keeps the rate; the window is for a path that stops answering: a queue as long as the path at most. */
#define WINDOW_GAIN 2

static void choose(struct sock *sk, struct vivace *v, struct interval *in, const struct interval *last)
{
	u64 distance = v->rate / 1000 * param(sk, probe);
	bool up;

	in->purpose = IDLE;
	in->rate = v->rate;
	if (v->phase == STARTING && waits_for_start(sk, v)) {
		in->rate = last->rate;
	} else if (v->phase == STARTING && !v->held) {
		in->purpose = START;
		in->rate = last->purpose == START ? last->rate : v->rate;
		/* A rate that was not used is not raised. */
		if (last->purpose != START || (!last->unusable && was_used(sk, last)))
			in->rate = bounded_rate(sk, in->rate * param(sk, start_gain) >> 10);
	} else if (v->phase == PROBING && v->issued < PROBES) {
		up = (v->up_first >> (v->issued >> 1) & 1) ^ (v->issued & 1);
		in->purpose = up ? PROBE_UP : PROBE_DOWN;
		in->rate = up ? v->rate + distance : v->rate - distance;
		v->issued++;
	} else if (v->phase == MOVING && v->issued == 0) {
		in->purpose = MOVE;
		v->issued = 1;
	}
}

static bool question_waits(struct sock *sk, const struct vivace *v)
{
	return (v->phase == PROBING && v->issued < PROBES) || (v->phase == MOVING && v->issued == 0) ||
	       (v->phase == STARTING && !v->held && !waits_for_start(sk, v));
}

static void open_interval(struct sock *sk, struct vivace *v, const struct interval *last)
{
	struct interval *in;

	v->count++;
	in = newest(v);
	*in = (struct interval){ .start_us = tcp_sk(sk)->tcp_mstamp, .bytes = tcp_sk(sk)->bytes_sent };
	if (last)
		choose(sk, v, in, last);
}

/* A queue makes round trips long, and is to be answered all the sooner. */
static u32 interval_us(struct sock *sk, const struct vivace *v)
{
	u32 rtt = smoothed_rtt(sk);

	return v->phase == STARTING || param(sk, interval) ? rtt : base_rtt(sk, v);
}

/* Enough packets, and enough of the trains that a host sends at once. */
static u64 least_interval_us(struct sock *sk, struct vivace *v)
{
	u64 packets = param(sk, interval) ? PACKETS_MIN_SMOOTHED : max32(PACKETS_MIN, TRAINS_MIN * train_packets(sk));
	u64 packets_us = packets * tcp_sk(sk)->mss_cache * USEC_PER_SEC / max64(newest(v)->rate, 1);

	return max64(max32(interval_us(sk, v), INTERVAL_MIN_US), packets_us);
}

/* Whether what left since the last ACK filled the peer's window. */
static void note_peer_window(struct sock *sk, struct vivace *v)
{
	struct tcp_sock *tp = tcp_sk(sk);

	newest(v)->peer_full |= before(v->window_end, tp->snd_nxt + tp->mss_cache);
	v->window_end = tp->snd_una + tp->snd_wnd;
}

/* Ends the interval that is being sent when its time is over, and begins the next. */
static void rotate(struct sock *sk, struct vivace *v)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct interval *in = newest(v);
	u64 age = tp->tcp_mstamp - in->start_us, sent = tp->bytes_sent - in->bytes;

	bool over = age >= least_interval_us(sk, v) || age >= INTERVAL_MAX_US;
	/* At a rate that seems too high half an interval is enough. */
	bool cut = in->purpose == START && v->held;

	/* An interval without a question makes way for one that has, but tells nothing then. */
	if (in->purpose == IDLE ? !question_waits(sk, v) : !over && !cut)
		return;
	if (sent == 0)
		in->start_us = tp->tcp_mstamp;
	if (sent == 0 || v->count == RING)
		return;
	in->length_us = (u32)min64(age, ~0U);
	in->bytes = sent;
	in->end_seq = tp->snd_nxt;
	in->unusable = !(over || (cut && age >= smoothed_rtt(sk) / 2)) || (tp->app_limited != 0 && !param(sk, limited));
	open_interval(sk, v, in);
}

/* A slow reader held this interval back: its window was full, and yet there was no queue. That tells nothing of the path. */
static bool reader_was_the_limit(struct sock *sk, const struct vivace *v, const struct interval *in)
{
	u64 train_us = (u64)train_packets(sk) * tcp_sk(sk)->mss_cache * USEC_PER_SEC / max64(in->rate, 1);
	u64 base_us = base_rtt(sk, v);

	if (!in->peer_full || param(sk, limited) || (in->purpose == START && was_used(sk, in)))
		return false;
	return in->samples == 0 || interval_mean_rtt(in) <= base_us + max64(base_us / 4, 2 * train_us);
}

/* An interval's feedback is complete. */
static void judge(struct sock *sk, struct vivace *v, const struct interval *in)
{
	u64 x = tried_rate(sk, in);
	struct answer *answer;

	if (in->purpose == IDLE)
		return;
	if (in->purpose == START) {
		judge_start(sk, v, in, x);
		return;
	}
	if (in->unusable) {
		enter_probing(sk, v);
		return;
	}
	if (in->purpose == MOVE) {
		decide_from_move(sk, v, x, in);
		return;
	}
	answer = &v->answers[v->answered & 3];
	answer->x = x;
	answer->slope = bounded_slope(sk, in);
	answer->rtt_us = interval_mean_rtt(in);
	answer->lost = (u32)lost_share(sk, in);
	if (++v->answered == PROBES)
		decide_from_probes(sk, v, in->length_us);
}

static void collect(struct sock *sk, struct vivace *v, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool sample = rs->rtt_us >= 0 && !rs->is_retrans && rs->acked_sacked > 0 && rs->interval_us > 0;
	struct interval in;

	if (before(v->seq_seen, tp->snd_una))
		v->seq_seen = tp->snd_una;
	if (sample && before(v->seq_seen, rs->last_end_seq))
		v->seq_seen = rs->last_end_seq;
	/* At most one result per ACK; the rest waits for the next. */
	if (v->count > 1 && before(v->ring[v->head % RING].end_seq, v->seq_seen)) {
		in = v->ring[v->head % RING];
		v->head = (v->head + 1) % RING;
		v->count--;
		in.unusable |= reader_was_the_limit(sk, v, &in);
		judge(sk, v, &in);
	}
	if (rs->rtt_us > 0)
		track_least(sk, v, (u32)min64((u64)rs->rtt_us, ~0U));
	v->ring[v->head % RING].losses += rs->losses > 0 ? (u32)rs->losses : 0;
	if (sample && !rs->is_ack_delayed) {
		interval_add(&v->ring[v->head % RING], tp->tcp_mstamp, (u32)rs->rtt_us, smoothed_rtt(sk));
		glance(sk, v, &v->ring[v->head % RING]);
	}
}

static void apply(struct sock *sk, struct vivace *v)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt = param(sk, window) ? smoothed_rtt(sk) : base_rtt(sk, v);
	u64 rate = newest(v)->rate, window = rate * rtt / USEC_PER_SEC / max32(tp->mss_cache, 1);

	sk->sk_pacing_rate = min64(rate, sk->sk_max_pacing_rate);
	window = min64(window, TCP_INFINITE_SSTHRESH) * WINDOW_GAIN + PACKETS_MIN;
	tp->snd_cwnd = (u32)min64(min64(window, TCP_INFINITE_SSTHRESH), tp->snd_cwnd_clamp);
}

CC_CALLBACK(void, vivace_init, struct sock *sk)
{
	struct vivace *v = cc_storage(sk);

	if (!v)
		return;
	*v = (struct vivace){ .seq_seen = tcp_sk(sk)->snd_una, .window_end = tcp_sk(sk)->snd_una + NO_WINDOW,
			       .deviation = DEVIATION_INITIAL, .least_us = ~0U, .last_least_us = ~0U, .least_since = now_ms(sk) };
	v->rate = param(sk, initial) * tcp_sk(sk)->mss_cache * USEC_PER_SEC / smoothed_rtt(sk);
	if (param(sk, initial_rate))
		v->rate = param(sk, initial_rate) / 8;
	v->rate = bounded_rate(sk, v->rate);
	open_interval(sk, v, NULL);
	newest(v)->purpose = START;
	newest(v)->rate = v->rate;
	apply(sk, v);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

CC_CALLBACK(void, vivace_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct vivace *v = cc_storage(sk);

	if (!v)
		return;
	note_peer_window(sk, v);
	collect(sk, v, rs);
	rotate(sk, v);
	apply(sk, v);
}

/* After an idle time the interval begins with the first packet. On a short path nothing is in flight between trains. */
CC_CALLBACK(void, vivace_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct vivace *v = cc_storage(sk);
	u64 idle_us = (u64)since_last_send_ms(sk) * USEC_PER_MSEC;

	if (!v || event != CA_EVENT_TX_START || idle_us <= least_interval_us(sk, v))
		return;
	newest(v)->start_us = tcp_sk(sk)->tcp_mstamp;
	newest(v)->bytes = tcp_sk(sk)->bytes_sent;
}

/* A timeout: nothing that is under way will be answered. */
CC_CALLBACK(void, vivace_set_state, struct sock *sk, u8 new_state)
{
	struct vivace *v = cc_storage(sk);

	if (!v || new_state != TCP_CA_Loss)
		return;
	if (!param(sk, timeout))
		v->rate = bounded_rate(sk, v->rate / 2);
	v->head = 0;
	v->count = 0;
	open_interval(sk, v, NULL);
	leave_starting(sk, v);
}

CC_CALLBACK(u32, vivace_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

CC_CALLBACK(u32, vivace_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

CC_REGISTER(vivace, "PCC Vivace, Dong et al. 2018", PARAMETERS,
	.init = OP(vivace_init),
	.cong_control = OP(vivace_cong_control),
	.ssthresh = OP(vivace_ssthresh),
	.undo_cwnd = OP(vivace_undo_cwnd),
	.set_state = OP(vivace_set_state),
	.cwnd_event = OP(vivace_cwnd_event))
