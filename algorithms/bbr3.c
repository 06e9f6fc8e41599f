// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * BBR, version 3: send at the measured bandwidth, with bounds that losses set.
 *
 * draft-ietf-ccwg-bbr, state of 3 August 2026: Cardwell, Swett, Beshay (editors), "BBR Congestion Control".
 *
 * Differences from the draft:
 *  - Linux's rate sample has neither what was in flight nor what was lost when a packet left. Snapshots at each ACK have both
 *    (bbr3/snapshots.h): exact for first transmissions while the window has up to 64 packets and no timer marks losses between two
 *    ACKs, within 1/48 of the window otherwise. Packets sent again count as if they had left with the snapshot.
 *  - A lost packet is taken to have left with the packet that was delivered last: Linux reports a loss with the next ACK, as a
 *    number of packets. Packets lost together count as one. The draft warns of just this ("Probing for Bandwidth
 *    In ProbeBW"): where losses are noticed late, less may have been in flight by then, and inflight_longterm falls too low.
 *  - An ACK without a rate sample (rate or interval of 0) sets window and pacing rate, and leaves the model as it is: rounds, minima,
 *    cycle, PROBE_RTT.
 *  - A cycle of max_bw in which nothing was measured ends no older one.
 *  - Discontiguous ranges of losses are ACKs that report some. Without SACK, STARTUP ends as with it.
 *  - A new minimum round trip after the old one's time is not taken from an ACK that was delayed.
 *  - A CE mark counts as a loss (RFC 3168); a single one ends a probe, and STARTUP at the end of its round. `ecn = "off"`: marks are
 *    not looked at.
 *  - DRAIN is bounded by inflight_shortterm alone, as the draft's pseudocode; its table names inflight_longterm too.
 *  - Windows count packets, and so do Reno's rounds.
 * Differences from Google's BBRv3 for Linux: gains of 0.5 in DRAIN and 0.9 in PROBE_DOWN (0.35, 0.91); extra_acked of 10 rounds, at most
 * the window (5 to 10 rounds, at most 100 ms of bandwidth); no response in proportion to CE marks; a send quantum of 1 ms; packets that
 * wait for pacing count as in flight.
 *
 * Units: bandwidth in packets/us << 30; gains and shares in percent; stamps in us; rounds count up.
 */
#include "tcp.h"

#define PARAMETERS(P)                                                                                                   \
	P(probe_rtt_interval, "us", 5000000, 1000000, 600000000, "time without a new minimum before PROBE_RTT")             \
	P(probe_rtt_time, "us", 200000, 0, 10000000, "time that PROBE_RTT keeps half of the path in flight")                \
	P(min_rtt_window, "us", 10000000, 1000000, 600000000, "time for which a minimum round trip is kept")                \
	P(ecn, "switch", 1, 0, 1, "a CE mark is congestion")                                                                \
	P(probe_rtt_cycle, "switch", 0, 0, 1, "the end of PROBE_RTT ends a cycle of max_bw; not in the draft")
CC_PARAMETERS(PARAMETERS)

#include "bbr3/bounds.h"
#include "bbr3/watched.h"

/* The pipe is full when three rounds bring less than 25 % more. */
#define FULL_BW_PERCENT 125
#define FULL_BW_ROUNDS 3
/* ACK aggregation: maximum over 10 rounds; in STARTUP, of one. */
#define EXTRA_WINDOW_ROUNDS 10
#define EXTRA_WINDOW_STARTUP 1

/* ---- the model ---- */

static struct sample read_sample(struct sock *sk, struct bbr3 *b, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct snapshot *then = find_snapshot(&b->sent, rs->prior_delivered);
	struct sample s = {
		.acked = rs->acked_sacked,
		.losses = tp->lost - b->lost_seen,
		.lost = tp->lost - then->lost,
		.tx_in_flight = in_flight_at(sk, then, rs->prior_delivered, rs->last_end_seq),
		.is_app_limited = rs->is_app_limited,
	};

	b->lost_seen = tp->lost;
	if (rs->delivered > 0 && rs->interval_us > 0) {
		s.delivered = (u32)rs->delivered;
		s.bw = min64(((u64)s.delivered << BW_SHIFT) / (u64)rs->interval_us, BW_MAX);
	}
	return s;
}

static void update_max_bw(struct sock *sk, struct bbr3 *b, const struct sample *s, const struct rate_sample *rs)
{
	b->round_start = 0;
	if (!before(rs->prior_delivered, b->round_end)) {
		start_round(sk, b);
		b->round++;
		b->rounds_since_probe++;
		b->round_start = 1;
	}
	/* A sender short of data shows less than the path has, unless it shows more than was known. */
	if (!s->is_app_limited || s->bw >= max_bw(b))
		b->bw_this_cycle = max64(b->bw_this_cycle, s->bw);
}

/* Packets acknowledged beyond the model's rate since the interval began. */
static void update_extra_acked(struct sock *sk, struct bbr3 *b, const struct sample *s)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = b->full_bw_reached ? EXTRA_WINDOW_ROUNDS : EXTRA_WINDOW_STARTUP;
	u64 expected = model_bw(b) * min64(tp->delivered_mstamp - b->extra_start_us, RTT_US_MAX) >> BW_SHIFT;

	if (b->extra_delivered <= expected) {
		b->extra_delivered = 0;
		b->extra_start_us = tp->delivered_mstamp;
		expected = 0;
	}
	b->extra_delivered = min32(b->extra_delivered + s->acked, NO_BOUND);
	windowed_max_add(&b->extra, window, b->round, min32(b->extra_delivered - (u32)expected, tp->snd_cwnd));
}

static void check_full_bw(struct bbr3 *b, const struct sample *s)
{
	if (b->full_bw_now || !b->round_start || s->is_app_limited)
		return;
	if (s->bw * PERCENT >= b->full_bw * FULL_BW_PERCENT) {
		reset_full_bw(b);
		b->full_bw = s->bw;
		return;
	}
	b->full_bw_now = ++b->full_bw_count >= FULL_BW_ROUNDS;
	if (b->full_bw_now)
		b->full_bw_reached = 1;
}

static void check_probe_rtt_done(struct sock *sk, struct bbr3 *b)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (b->probe_rtt_done_us == 0 || tp->tcp_mstamp <= b->probe_rtt_done_us)
		return;
	b->probe_rtt_min_stamp_us = tp->tcp_mstamp;
	tp->snd_cwnd = max32(tp->snd_cwnd, b->prior_cwnd);
	if (param(sk, probe_rtt_cycle))
		advance_max_bw(b);
	leave_probe_rtt(sk, b);
}

/* With half of the path in flight the queue empties; stay there for 200 ms and a round. */
static void hold_probe_rtt(struct sock *sk, struct bbr3 *b)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* The rate delivered now is that of the small window, not of the path. */
	tp->app_limited = max32(tp->delivered + tcp_packets_in_flight(tp), 1);
	if (b->probe_rtt_done_us == 0) {
		if (tcp_packets_in_flight(tp) > probe_rtt_cwnd(b))
			return;
		b->probe_rtt_done_us = tp->tcp_mstamp + param(sk, probe_rtt_time);
		b->probe_rtt_round_done = 0;
		start_round(sk, b);
		return;
	}
	if (b->round_start)
		b->probe_rtt_round_done = 1;
	if (b->probe_rtt_round_done)
		check_probe_rtt_done(sk, b);
}

/* The minimum of 10 s, by way of the minimum of 5 s: a flow that sees it in each of them needs no PROBE_RTT. */
static void update_min_rtt(struct sock *sk, struct bbr3 *b, const struct rate_sample *rs)
{
	u64 now = tcp_sk(sk)->tcp_mstamp;
	bool expired = now > b->probe_rtt_min_stamp_us + param(sk, probe_rtt_interval);

	if (rs->rtt_us >= 0 && ((u64)rs->rtt_us < b->probe_rtt_min_us || (expired && !rs->is_ack_delayed))) {
		b->probe_rtt_min_us = (u32)min64((u64)rs->rtt_us, ~0U - 1);
		b->probe_rtt_min_stamp_us = now;
	}
	if (b->probe_rtt_min_us < b->min_rtt_us || now > b->min_rtt_stamp_us + param(sk, min_rtt_window)) {
		b->min_rtt_us = b->probe_rtt_min_us;
		b->min_rtt_stamp_us = b->probe_rtt_min_stamp_us;
	}
	if (expired && !b->idle_restart && b->state != PROBE_RTT) {
		b->state = PROBE_RTT;
		save_cwnd(sk, b);
		b->probe_rtt_done_us = 0;
		b->ack_phase = ACKS_PROBE_STOPPING;
		start_round(sk, b);
	}
	if (b->state == PROBE_RTT)
		hold_probe_rtt(sk, b);
	if (rs->delivered > 0)
		b->idle_restart = 0;
}

static void update_model(struct sock *sk, struct bbr3 *b, const struct sample *s, const struct rate_sample *rs)
{
	update_latest(sk, b, s, rs);
	update_max_bw(sk, b, s, rs);
	adapt_shortterm(sk, b, s, rs);
	update_extra_acked(sk, b, s);
	check_full_bw(b, s);
	if (b->state == STARTUP && b->full_bw_reached)
		enter_drain(b);
	check_drain_done(sk, b);
	update_cycle(sk, b, s);
	update_min_rtt(sk, b, rs);
	advance_latest(b, s);
}

/* ---- what leaves: rate and window ---- */

/* Before any bandwidth is known: the window over the round trip, or over 1 ms. */
static void set_initial_rate(struct sock *sk, struct bbr3 *b)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_us = USEC_PER_MSEC;
	u64 bw;

	if (tp->srtt_us) {
		rtt_us = max32(tp->srtt_us >> 3, 1);
		b->has_seen_rtt = 1;
	}
	bw = min64(((u64)tp->snd_cwnd << BW_SHIFT) / rtt_us, BW_MAX);
	sk->sk_pacing_rate = min64(bytes_per_second(sk, bw, STARTUP_GAIN), sk->sk_max_pacing_rate);
}

static void set_rate(struct sock *sk, struct bbr3 *b, u32 gain)
{
	u64 rate = min64(bytes_per_second(sk, model_bw(b), gain), sk->sk_max_pacing_rate);

	if (!b->has_seen_rtt && tcp_sk(sk)->srtt_us)
		set_initial_rate(sk, b);
	/* Until the pipe is full a slow sample is no reason to slow down. */
	if (b->full_bw_reached || rate > sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

static u32 bound_by_model(const struct bbr3 *b, u32 cwnd)
{
	u32 most = NO_BOUND;

	if (b->state == PROBE_CRUISE || b->state == PROBE_RTT)
		most = inflight_with_headroom(b);
	else if (in_probe_bw(b))
		most = b->inflight_longterm;
	return min32(cwnd, max32(min32(most, b->inflight_shortterm), MIN_WINDOW));
}

static void set_window(struct sock *sk, struct bbr3 *b, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tp->snd_cwnd, most = with_bursts(sk, b, bdp(b, model_bw(b), cwnd_gain(b)) + b->extra.best.value);
	u8 state = ca_state(sk);

	/* Leaving recovery restores the window. */
	if (b->prev_ca_state >= TCP_CA_Recovery && state < TCP_CA_Recovery)
		cwnd = max32(cwnd, b->prior_cwnd);
	b->prev_ca_state = state;
	if (b->full_bw_reached)
		cwnd = min32(cwnd + acked, most);
	else if (cwnd < most || tp->delivered < INITIAL_WINDOW)
		cwnd += acked;
	cwnd = max32(cwnd, MIN_WINDOW);
	if (b->state == PROBE_RTT)
		cwnd = min32(cwnd, probe_rtt_cwnd(b));
	tp->snd_cwnd = min32(bound_by_model(b, cwnd), tp->snd_cwnd_clamp);
}

/* ---- callbacks ---- */

CC_CALLBACK(void, bbr3_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = cc_storage(sk);
	struct sample s;
	u32 marks;

	if (!b)
		return;
	s = read_sample(sk, b, rs);
	marks = tp->delivered_ce - b->ce_seen;
	b->ce_seen = tp->delivered_ce;
	if (ca_state(sk) == TCP_CA_Recovery && b->prev_ca_state != TCP_CA_Recovery)
		b->recovery_begin = tp->delivered;
	handle_losses(sk, b, &s);
	handle_marks(sk, b, &s, marks);
	if (s.bw)
		update_model(sk, b, &s, rs);
	set_rate(sk, b, pacing_gain(b));
	set_window(sk, b, s.acked);
	take_snapshot(sk, &b->sent);
}

CC_CALLBACK(void, bbr3_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = cc_storage(sk);

	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	if (!b)
		return;
	/* The storage may be of an earlier choice of this algorithm. The ring needs no zeros. */
	__builtin_memset(b, 0, __builtin_offsetof(struct bbr3, sent));
	b->sent.count = 0;
	b->state = STARTUP;
	b->undo_state = NO_STATE;
	b->round_end = tp->delivered;
	b->loss_round_end = tp->delivered;
	b->min_rtt_us = tcp_min_rtt(tp);
	b->probe_rtt_min_us = b->min_rtt_us;
	b->min_rtt_stamp_us = tp->tcp_mstamp;
	b->probe_rtt_min_stamp_us = tp->tcp_mstamp;
	b->extra_start_us = tp->tcp_mstamp;
	b->inflight_longterm = NO_BOUND;
	b->up_per_packet = NO_BOUND;
	b->lost_seen = tp->lost;
	b->ce_seen = tp->delivered_ce;
	reset_shortterm(b);
	set_initial_rate(sk, b);
	take_snapshot(sk, &b->sent);
}

CC_CALLBACK(void, bbr3_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = cc_storage(sk);

	if (!b || event != CA_EVENT_TX_START || !tp->app_limited)
		return;
	b->idle_restart = 1;
	b->extra_start_us = tp->tcp_mstamp;
	b->extra_delivered = 0;
	/* After an idle time the pipe is empty: no need to probe for more than it is known to take. */
	if (in_probe_bw(b))
		set_rate(sk, b, PERCENT);
	else if (b->state == PROBE_RTT)
		check_probe_rtt_done(sk, b);
}

CC_CALLBACK(void, bbr3_set_state, struct sock *sk, u8 new_state)
{
	struct bbr3 *b = cc_storage(sk);

	/* A timeout: Linux has saved the window by ssthresh(), and sends what is in flight and one packet. */
	if (b && new_state == TCP_CA_Loss)
		b->prev_ca_state = TCP_CA_Loss;
}

CC_CALLBACK(u32, bbr3_ssthresh, struct sock *sk)
{
	struct bbr3 *b = cc_storage(sk);

	if (b)
		save_upon_loss(sk, b);
	return tcp_sk(sk)->snd_ssthresh;
}

CC_CALLBACK(u32, bbr3_undo_cwnd, struct sock *sk)
{
	struct bbr3 *b = cc_storage(sk);

	if (!b)
		return tcp_sk(sk)->snd_cwnd;
	handle_spurious_loss(sk, b);
	return max32(tcp_sk(sk)->snd_cwnd, b->prior_cwnd);
}

CC_CALLBACK(u32, bbr3_min_tso_segs, struct sock *sk)
{
	return QUANTUM_PACKETS_MIN;
}

/* Recovery and pacing keep more data queued: three windows. */
CC_CALLBACK(u32, bbr3_sndbuf_expand, struct sock *sk)
{
	return 3;
}

CC_REGISTER(bbr3, "BBR version 3, draft-ietf-ccwg-bbr", PARAMETERS,
	.init = OP(bbr3_init),
	.cong_control = OP(bbr3_cong_control),
	.ssthresh = OP(bbr3_ssthresh),
	.undo_cwnd = OP(bbr3_undo_cwnd),
	.set_state = OP(bbr3_set_state),
	.cwnd_event = OP(bbr3_cwnd_event),
	.min_tso_segs = OP(bbr3_min_tso_segs),
	.sndbuf_expand = OP(bbr3_sndbuf_expand))
