// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * BBR, version 1: send at the measured bandwidth, with about two bandwidth-delay products in flight.
 *
 * Cardwell, Cheng, Gunn, Hassas Yeganeh, Jacobson: "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016;
 * draft-cardwell-iccrg-bbr-congestion-control-00 (2017).
 *
 * Differences from the draft (as Linux):
 *  - paces 1 % below the model, so that a queue made by estimates a little high drains
 *  - notices token-bucket policers and holds the long-term rate between losses ("lt" below)
 *  - adds what ACK aggregation holds back to the window (the parameter `extra_acked`; Linux before 5.1, thus 4.15: off)
 *  - a round trip equal to the minimum does not renew it (since Linux 5.10; in 4.15 it did, which over a constant delay puts PROBE_RTT off)
 *  - counts packets in the network at the earliest departure of the next one
 * Difference from Linux: bandwidth samples saturate at 64 packets/us, products of large rates drop low bits instead of
 * overflowing, and an excess of ACKs over 65535 packets saturates.
 *
 * Units: bandwidth in packets/us << 24; gains << 8; min_rtt in us; stamps in ms unless they say us; rounds count up.
 */
#include "tcp.h"

#define PARAMETERS(P)                                                                                                   \
	P(extra_acked, "switch", 1, 0, 1, "let the window cover aggregated ACKs")                                           \
	P(probe_rtt_interval, "us", 10000000, 1000000, 600000000, "time without a new minimum before PROBE_RTT")            \
	P(probe_rtt_time, "us", 200000, 0, 10000000, "time that PROBE_RTT keeps four packets in flight")
CC_PARAMETERS(PARAMETERS)

#include "bbr/policer.h"

/* The pipe is full when three rounds bring less than 25 % more. */
#define FULL_BW_GAIN (GAIN_ONE * 5 / 4)
#define FULL_BW_ROUNDS 3
/* ACK aggregation: maximum over two windows of 5 rounds, at most 100 ms worth; epochs end at 2^20 packets. */
#define EXTRA_WINDOW_ROUNDS 5
#define EXTRA_MAX_US 100000
#define EPOCH_PACKETS_MAX (1U << 20)

static void save_cwnd(struct sock *sk, struct bbr *b)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	if (b->prev_ca_state < TCP_CA_Recovery && b->mode != PROBE_RTT)
		b->prior_cwnd = cwnd;
	else
		b->prior_cwnd = max32(b->prior_cwnd, cwnd);
}

static void leave_probe_rtt(struct sock *sk, struct bbr *b)
{
	if (b->full_pipe)
		enter_probe_bw(sk, b);
	else
		b->mode = STARTUP;
}

static void set_gains(struct bbr *b)
{
	u32 probing = b->phase == 0 ? GAIN_ONE * 5 / 4 : b->phase == 1 ? GAIN_ONE * 3 / 4 : GAIN_ONE;

	switch (b->mode) {
	case STARTUP:
		b->pacing_gain = b->cwnd_gain = HIGH_GAIN;
		break;
	case DRAIN:
		b->pacing_gain = DRAIN_GAIN;
		b->cwnd_gain = HIGH_GAIN;
		break;
	case PROBE_BW:
		b->pacing_gain = b->lt_use ? GAIN_ONE : probing;
		b->cwnd_gain = CWND_GAIN;
		break;
	default:
		b->pacing_gain = b->cwnd_gain = GAIN_ONE;
	}
}

static void update_bw(struct sock *sk, struct bbr *b, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 bw;

	b->round_start = 0;
	if (rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (!before(rs->prior_delivered, b->round_end)) {
		b->round_end = tp->delivered;
		b->round++;
		b->round_start = 1;
		b->packet_conservation = 0;
	}
	lt_sample(sk, b, rs->losses, rs->is_app_limited);
	bw = (u32)min64(((u64)rs->delivered << BW_SHIFT) / (u64)rs->interval_us, BW_MAX);
	/* A sender short of data shows less than the path has, unless it shows more than was known. */
	if (!rs->is_app_limited || bw >= b->bw.best.value)
		windowed_max_add(&b->bw, BW_WINDOW_ROUNDS, b->round, bw);
}

/* Packets acknowledged beyond the model's rate since the epoch began; the largest of the last 5 to 10 rounds counts. */
static void update_extra_acked(struct sock *sk, struct bbr *b, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 expected;
	u32 extra;

	if (!param(sk, extra_acked) || rs->acked_sacked == 0 || rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (b->round_start && ++b->extra_rounds >= EXTRA_WINDOW_ROUNDS) {
		b->extra_rounds = 0;
		b->extra_before = b->extra_now;
		b->extra_now = 0;
	}
	expected = (u64)model_bw(b) * min64(tp->delivered_mstamp - b->epoch_stamp_us, ~0U) >> BW_SHIFT;
	if (b->epoch_acked <= expected || b->epoch_acked + rs->acked_sacked >= EPOCH_PACKETS_MAX) {
		b->epoch_acked = 0;
		b->epoch_stamp_us = tp->delivered_mstamp;
		expected = 0;
	}
	b->epoch_acked = min32(b->epoch_acked + rs->acked_sacked, EPOCH_PACKETS_MAX - 1);
	extra = min32(min32(b->epoch_acked - (u32)expected, tp->snd_cwnd), 0xffff);
	if (extra > b->extra_now)
		b->extra_now = (u16)extra;
}

/* A phase lasts a round trip; probing longer until it shows (loss, or its share in flight), draining until drained. */
static bool phase_is_over(struct sock *sk, struct bbr *b, const struct rate_sample *rs)
{
	bool full_length = (s64)(tcp_sk(sk)->delivered_mstamp - b->cycle_stamp_us) > (s64)b->min_rtt_us;
	u32 inflight;

	if (b->pacing_gain == GAIN_ONE)
		return full_length;
	inflight = inflight_at_departure(sk, b, rs->prior_in_flight);
	if (b->pacing_gain > GAIN_ONE)
		return full_length && (rs->losses || inflight >= inflight_at(sk, b, b->pacing_gain));
	return full_length || inflight <= inflight_at(sk, b, GAIN_ONE);
}

static void check_full_pipe(struct bbr *b, const struct rate_sample *rs)
{
	if (b->full_pipe || !b->round_start || rs->is_app_limited)
		return;
	if (b->bw.best.value >= (u64)b->full_bw * FULL_BW_GAIN >> GAIN_SHIFT) {
		b->full_bw = b->bw.best.value;
		b->full_bw_count = 0;
		return;
	}
	b->full_pipe = ++b->full_bw_count >= FULL_BW_ROUNDS;
}

static void check_drain(struct sock *sk, struct bbr *b)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (b->mode == STARTUP && b->full_pipe) {
		b->mode = DRAIN;
		tp->snd_ssthresh = inflight_at(sk, b, GAIN_ONE);
	}
	if (b->mode == DRAIN &&
	    inflight_at_departure(sk, b, tcp_packets_in_flight(tp)) <= inflight_at(sk, b, GAIN_ONE))
		enter_probe_bw(sk, b);
}

static void check_probe_rtt_done(struct sock *sk, struct bbr *b)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now = jiffies_ms(sk);

	if (b->probe_rtt_end == 0 || !before(b->probe_rtt_end, now))
		return;
	b->min_rtt_stamp = now;
	tp->snd_cwnd = max32(tp->snd_cwnd, b->prior_cwnd);
	leave_probe_rtt(sk, b);
}

/* With four packets in flight the queue empties; stay there for 200 ms and a round. */
static void hold_probe_rtt(struct sock *sk, struct bbr *b)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 end;

	/* The rate delivered now is that of the small window, not of the path. */
	tp->app_limited = max32(tp->delivered + tcp_packets_in_flight(tp), 1);
	if (b->probe_rtt_end == 0) {
		if (tcp_packets_in_flight(tp) > MIN_WINDOW)
			return;
		end = jiffies_ms(sk) + (u32)(param(sk, probe_rtt_time) / USEC_PER_MSEC);
		b->probe_rtt_end = max32(end, 1);
		b->probe_rtt_round_done = 0;
		b->round_end = tp->delivered;
		return;
	}
	if (b->round_start)
		b->probe_rtt_round_done = 1;
	if (b->probe_rtt_round_done)
		check_probe_rtt_done(sk, b);
}

static void update_min_rtt(struct sock *sk, struct bbr *b, const struct rate_sample *rs)
{
	u32 now = jiffies_ms(sk);
	bool expired = before(b->min_rtt_stamp + (u32)(param(sk, probe_rtt_interval) / USEC_PER_MSEC), now);

	if (rs->rtt_us >= 0 && ((u64)rs->rtt_us < b->min_rtt_us || (expired && !rs->is_ack_delayed))) {
		b->min_rtt_us = (u32)rs->rtt_us;
		b->min_rtt_stamp = now;
	}
	if (expired && !b->idle_restart && b->mode != PROBE_RTT) {
		b->mode = PROBE_RTT;
		save_cwnd(sk, b);
		b->probe_rtt_end = 0;
	}
	if (b->mode == PROBE_RTT)
		hold_probe_rtt(sk, b);
	if (rs->delivered > 0)
		b->idle_restart = 0;
}

/* ---- what leaves: rate and window ---- */

/* Before any bandwidth is known: the window over the round trip, or over 1 ms. */
static void set_initial_rate(struct sock *sk, struct bbr *b)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_us = USEC_PER_MSEC;
	u64 bw;

	if (tp->srtt_us) {
		rtt_us = max32(tp->srtt_us >> 3, 1);
		b->has_seen_rtt = 1;
	}
	bw = min64(((u64)tp->snd_cwnd << BW_SHIFT) / rtt_us, BW_MAX);
	sk->sk_pacing_rate = min64(bytes_per_second(sk, bw, HIGH_GAIN), sk->sk_max_pacing_rate);
}

static void set_rate(struct sock *sk, struct bbr *b, u32 gain)
{
	u64 rate = min64(bytes_per_second(sk, model_bw(b), gain), sk->sk_max_pacing_rate);

	if (!b->has_seen_rtt && tcp_sk(sk)->srtt_us)
		set_initial_rate(sk, b);
	/* Until the pipe is full a slow sample is no reason to slow down. */
	if (b->full_pipe || rate > sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

/* The first round of recovery sends a packet for a packet; leaving it restores the window. True: the window is final. */
static bool window_in_recovery(struct sock *sk, struct bbr *b, const struct rate_sample *rs, u32 *cwnd)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u8 before_ack = b->prev_ca_state, state = ca_state(sk);
	u32 losses = rs->losses > 0 ? (u32)rs->losses : 0;

	if (losses)
		*cwnd = *cwnd > losses ? *cwnd - losses : 1;
	if (state == TCP_CA_Recovery && before_ack != TCP_CA_Recovery) {
		b->packet_conservation = 1;
		b->round_end = tp->delivered;
		*cwnd = tcp_packets_in_flight(tp) + rs->acked_sacked;
	} else if (before_ack >= TCP_CA_Recovery && state < TCP_CA_Recovery) {
		*cwnd = max32(*cwnd, b->prior_cwnd);
		b->packet_conservation = 0;
	}
	b->prev_ca_state = state;
	if (b->packet_conservation)
		*cwnd = max32(*cwnd, tcp_packets_in_flight(tp) + rs->acked_sacked);
	return b->packet_conservation;
}

/* Room for ACKs that come late and together: what was seen, at most 100 ms worth. */
static u32 aggregation_allowance(struct sock *sk, const struct bbr *b)
{
	if (!param(sk, extra_acked) || !b->full_pipe)
		return 0;
	return (u32)min64((u64)model_bw(b) * EXTRA_MAX_US >> BW_SHIFT, max32(b->extra_now, b->extra_before));
}

static void set_window(struct sock *sk, struct bbr *b, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tp->snd_cwnd, acked = rs->acked_sacked, target;

	if (acked && !window_in_recovery(sk, b, rs, &cwnd)) {
		target = bdp(b, model_bw(b), b->cwnd_gain) + aggregation_allowance(sk, b);
		target = with_bursts(sk, b, target);
		if (b->full_pipe)
			cwnd = min32(cwnd + acked, target);
		else if (cwnd < target || tp->delivered < INITIAL_WINDOW)
			cwnd += acked;
		cwnd = max32(cwnd, MIN_WINDOW);
	}
	cwnd = min32(cwnd, tp->snd_cwnd_clamp);
	tp->snd_cwnd = b->mode == PROBE_RTT ? min32(cwnd, MIN_WINDOW) : cwnd;
}

/* ---- callbacks ---- */

CC_CALLBACK(void, bbr_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct bbr *b = inet_csk_ca(sk);

	update_bw(sk, b, rs);
	update_extra_acked(sk, b, rs);
	if (b->mode == PROBE_BW && phase_is_over(sk, b, rs))
		next_phase(sk, b);
	check_full_pipe(b, rs);
	check_drain(sk, b);
	update_min_rtt(sk, b, rs);
	set_gains(b);
	set_rate(sk, b, b->pacing_gain);
	set_window(sk, b, rs);
}

CC_CALLBACK(void, bbr_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *b = inet_csk_ca(sk);

	*b = (struct bbr){
		.round_end = tp->delivered,
		.min_rtt_us = tcp_min_rtt(tp),
		.min_rtt_stamp = jiffies_ms(sk),
		.epoch_stamp_us = tp->tcp_mstamp,
	};
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	lt_reset(sk, b);
	set_gains(b);
	set_initial_rate(sk, b);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

CC_CALLBACK(void, bbr_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *b = inet_csk_ca(sk);

	if (event != CA_EVENT_TX_START || !tp->app_limited)
		return;
	b->idle_restart = 1;
	b->epoch_stamp_us = tp->tcp_mstamp;
	b->epoch_acked = 0;
	/* After an idle time the pipe is empty: no need to probe for more than it is known to take. */
	if (b->mode == PROBE_BW)
		set_rate(sk, b, GAIN_ONE);
	else if (b->mode == PROBE_RTT)
		check_probe_rtt_done(sk, b);
}

CC_CALLBACK(void, bbr_set_state, struct sock *sk, u8 new_state)
{
	struct bbr *b = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	b->prev_ca_state = TCP_CA_Loss;
	b->full_bw = 0;
	/* A timeout ends a round. */
	b->round_start = 1;
	lt_sample(sk, b, 1, false);
}

CC_CALLBACK(u32, bbr_ssthresh, struct sock *sk)
{
	save_cwnd(sk, inet_csk_ca(sk));
	return tcp_sk(sk)->snd_ssthresh;
}

CC_CALLBACK(u32, bbr_undo_cwnd, struct sock *sk)
{
	struct bbr *b = inet_csk_ca(sk);

	b->full_bw = 0;
	b->full_bw_count = 0;
	lt_reset(sk, b);
	return tcp_sk(sk)->snd_cwnd;
}

CC_CALLBACK(u32, bbr_min_tso_segs, struct sock *sk)
{
	return min_burst(sk);
}

/* Recovery and pacing keep more data queued: three windows. */
CC_CALLBACK(u32, bbr_sndbuf_expand, struct sock *sk)
{
	return 3;
}

CC_REGISTER(bbr, "BBR version 1, Cardwell et al. 2016", PARAMETERS,
	.init = OP(bbr_init),
	.cong_control = OP(bbr_cong_control),
	.ssthresh = OP(bbr_ssthresh),
	.undo_cwnd = OP(bbr_undo_cwnd),
	.set_state = OP(bbr_set_state),
	.cwnd_event = OP(bbr_cwnd_event),
	.min_tso_segs = OP(bbr_min_tso_segs),
	.sndbuf_expand = OP(bbr_sndbuf_expand))
