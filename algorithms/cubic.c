// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * CUBIC: the window is a cubic function of the time since the last reduction.
 *
 * RFC 9438 (2023), "CUBIC for Fast and Long-Distance Networks"; Ha, Rhee, Xu: "CUBIC: A New TCP-Friendly High-Speed TCP
 * Variant", 2008. Slow start ends by HyStart: Ha, Rhee: "Taming the elephants: New TCP slow start", 2011.
 *
 * Differences from the RFC (as Linux 6.x):
 *  - the window approaches W_cubic(t + RTT) at most by one packet per two acknowledged, and by at least 5 % per RTT
 *    while no loss has shown where the maximum lies
 *  - the friendly window starts at the reduced window and grows by 3 (1 - beta) / (1 + beta) at any size
 *  - W_cubic is recomputed when the window changed or 1/32 s passed, at most once per ms
 *  - round trips within a second of an epoch's beginning do not count for the minimum
 * Differences from Linux:
 *  - the cube root is exact (Linux: a table and one Newton step, 0.2 % off on average); its clock ticks at 1 kHz
 *  - |t - K| saturates at 256 s, where Linux overflows a little later
 *
 * Units: windows in packets; `epoch_start`, `last_time` in ms; `K` in 1/1024 s; HyStart's clock in us.
 */
#include "tcp.h"

#define PARAMETERS(P)                                                                                                   \
	P(beta, "1/1024", 717, 512, 1023, "window kept on a loss")                                                          \
	P(fast_convergence, "switch", 1, 0, 1, "release bandwidth when the maximum shrinks")                                \
	P(tcp_friendliness, "switch", 1, 0, 1, "never slower than Reno would be")                                           \
	P(hystart, "switch", 1, 0, 1, "leave slow start before the first loss")                                             \
	P(ack_train, "switch", 1, 0, 1, "HyStart: exit when a train of ACKs is as long as half the round trip")             \
	P(delay, "switch", 1, 0, 1, "HyStart: exit when the round trip has grown")                                          \
	P(low_window, "packets", 16, 2, 1000000, "HyStart: smallest window to leave slow start at")
CC_PARAMETERS(PARAMETERS)

/* C = 410 / 1024 = 0.4 packets/s^3 (RFC 9438, 5.1). */
#define CUBIC_C 410
#define CUBIC_C_SHIFT 10
/* Time within the cubic function: 1024 per second. */
#define TICK_SHIFT 10
#define BETA_ONE 1024
/* Longest |t - K|: 256 s, so that C * t^3 fits 64 bits. */
#define OFFSET_MAX (256U << TICK_SHIFT)
/* Growth while the maximum is unknown: one packet per 20, 5 % per RTT. */
#define UNKNOWN_MAX_COUNT 20
/* Recompute W_cubic after this long at a constant window, ms: 1/32 s. */
#define REFRESH_MS 31
#define AFTER_EPOCH_MS 1000

/* HyStart: round trips per round, and ACKs this close to each other are one train. */
#define HYSTART_SAMPLES 8
#define HYSTART_TRAIN_GAP_US 2000
/* eta = clamp(RTTmin / 8, 4 ms, 16 ms) */
#define HYSTART_ETA_MIN_US 4000U
#define HYSTART_ETA_MAX_US 16000U

struct cubic {
	u32 count;      /* ACKed packets per packet of growth */
	u32 w_max;      /* window before the last reduction; 0: no loss yet */
	u32 last_cwnd;
	u32 last_time;
	u32 origin;     /* plateau of this epoch */
	u32 k;
	u32 delay_min;  /* us; 0: none */
	u32 epoch_start; /* 0: the next ACK starts one */
	u32 acked;      /* packets not yet credited to the friendly window */
	u32 w_est;      /* the friendly window */
	/* HyStart, this round: */
	u32 round_start;
	u32 round_end;  /* sequence number */
	u32 last_ack;
	u32 round_rtt;  /* least of the round, us */
	u8 samples;
	u8 exit_found;
};
CC_STATE(struct cubic);

static inline u32 clock_us(struct sock *sk)
{
	return (u32)tcp_sk(sk)->tcp_mstamp;
}

/* Largest r with r^3 <= x, digit by digit: r gains 2^i where (r + 2^i)^3 still fits. */
static u32 cube_root(u64 x)
{
	u64 root = 0;

	for (int i = 20; i >= 0; i--) {
		u64 next = root | (1ULL << i);

		if (next * next * next <= x)
			root = next;
	}
	return (u32)root;
}

static void start_round(struct sock *sk, struct cubic *ca)
{
	ca->round_start = ca->last_ack = clock_us(sk);
	ca->round_end = tcp_sk(sk)->snd_nxt;
	ca->round_rtt = ~0U;
	ca->samples = 0;
}

static void forget(struct sock *sk, struct cubic *ca)
{
	*ca = (struct cubic){ 0 };
	start_round(sk, ca);
}

CC_CALLBACK(void, cubic_init, struct sock *sk)
{
	forget(sk, inet_csk_ca(sk));
}

/* RFC 9438, figure 2: K = cbrt((W_max - cwnd) / C), here in ticks: cbrt(2^30 (W_max - cwnd) 2^10 / 410). */
static u32 time_to_plateau(u32 distance)
{
	return cube_root((1ULL << (CUBIC_C_SHIFT + 3 * TICK_SHIFT)) / CUBIC_C * distance);
}

/* RFC 9438, figure 1: W_cubic(t) = C (t - K)^3 + W_max. */
static u32 w_cubic(const struct cubic *ca, u64 t)
{
	u64 offset = min64(t < ca->k ? ca->k - t : t - ca->k, OFFSET_MAX);
	u64 delta = CUBIC_C * offset * offset * offset >> (CUBIC_C_SHIFT + 3 * TICK_SHIFT);

	if (t < ca->k)
		return ca->origin - (u32)min64(delta, ca->origin);
	return ca->origin + (u32)delta;
}

/* The cubic function's wish, as ACKed packets per packet of growth. */
static u32 cubic_count(struct cubic *ca, u32 cwnd, u32 now)
{
	u32 delay_ms = (ca->delay_min + USEC_PER_MSEC - 1) / USEC_PER_MSEC;
	u64 t = (((u64)(now - ca->epoch_start) + delay_ms) << TICK_SHIFT) / 1000;
	u32 target = w_cubic(ca, t), count = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;

	return ca->w_max == 0 ? min32(count, UNKNOWN_MAX_COUNT) : count;
}

/* RFC 9438, 4.3: W_est grows by 3 (1 - beta) / (1 + beta) per RTT, thus by one per `per_packet` ACKed packets. */
static u32 friendly_count(struct cubic *ca, u32 cwnd, u32 beta)
{
	u32 scale = 8 * (BETA_ONE + beta) / 3 / (BETA_ONE - beta);
	u32 per_packet = max32((u32)((u64)cwnd * scale >> 3), 1);

	if (ca->acked > per_packet) {
		u32 steps = (ca->acked - 1) / per_packet;

		ca->acked -= steps * per_packet;
		ca->w_est += steps;
	}
	return ca->w_est > cwnd ? cwnd / (ca->w_est - cwnd) : ~0U;
}

static void start_epoch(struct cubic *ca, u32 cwnd, u32 acked, u32 now)
{
	/* Zero means none. */
	ca->epoch_start = now ? now : 1;
	ca->acked = acked;
	ca->w_est = cwnd;
	ca->origin = max32(ca->w_max, cwnd);
	ca->k = ca->w_max > cwnd ? time_to_plateau(ca->w_max - cwnd) : 0;
}

static void update(struct sock *sk, struct cubic *ca, u32 cwnd, u32 acked)
{
	u32 now = now_ms(sk);

	ca->acked += acked;
	if (ca->last_cwnd == cwnd && now - ca->last_time <= REFRESH_MS)
		return;
	if (ca->epoch_start == 0 || now != ca->last_time) {
		ca->last_cwnd = cwnd;
		ca->last_time = now;
		if (ca->epoch_start == 0)
			start_epoch(ca, cwnd, acked, now);
		ca->count = cubic_count(ca, cwnd, now);
	}
	if (param(sk, tcp_friendliness))
		ca->count = min32(ca->count, friendly_count(ca, cwnd, (u32)param(sk, beta)));
	ca->count = max32(ca->count, 2);
}

CC_CALLBACK(void, cubic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (acked == 0)
			return;
	}
	update(sk, ca, tp->snd_cwnd, acked);
	tcp_cong_avoid_ai(tp, ca->count, acked);
}

/* RFC 9438, 4.6 and 4.7: reduce by beta, remember the maximum, a little less where it shrinks. */
CC_CALLBACK(u32, cubic_ssthresh, struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd, beta = (u32)param(sk, beta);

	ca->epoch_start = 0;
	if (cwnd < ca->w_max && param(sk, fast_convergence))
		ca->w_max = (u32)((u64)cwnd * (BETA_ONE + beta) / (2 * BETA_ONE));
	else
		ca->w_max = cwnd;
	return max32((u32)((u64)cwnd * beta / BETA_ONE), 2);
}

CC_CALLBACK(void, cubic_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		forget(sk, inet_csk_ca(sk));
}

/* RFC 9438, 5.8: time without data to send is no time to grow in. */
CC_CALLBACK(void, cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 now = now_ms(sk), idle;

	if (event != CA_EVENT_TX_START || ca->epoch_start == 0)
		return;
	idle = since_last_send_ms(sk);
	if ((s32)idle <= 0)
		return;
	ca->epoch_start += idle;
	if (before(now, ca->epoch_start))
		ca->epoch_start = now;
	if (ca->epoch_start == 0)
		ca->epoch_start = 1;
}

/* Bursts of the sender's segmentation offload stretch a train: four of them, at most 1 ms. */
static u32 burst_allowance_us(struct sock *sk)
{
	u64 rate = sk->sk_pacing_rate;

	return rate == 0 ? 0 : (u32)min64((u64)sk->sk_gso_max_size * 4 * USEC_PER_SEC / rate, USEC_PER_MSEC);
}

/* A train of closely spaced ACKs that is longer than the one-way delay: the window fills the path. */
static bool train_fills_path(struct sock *sk, struct cubic *ca)
{
	u32 now = clock_us(sk), limit = ca->delay_min + burst_allowance_us(sk);

	if ((s32)(now - ca->last_ack) > HYSTART_TRAIN_GAP_US)
		return false;
	ca->last_ack = now;
	/* Pacing in slow start spreads a window over half a round trip by itself. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		limit /= 2;
	return now - ca->round_start > limit;
}

/* The least round trip of this round is above the least ever by eta: there is a queue. */
static bool delay_has_grown(struct cubic *ca, u32 delay)
{
	u32 eta = clamp32(ca->delay_min / 8, HYSTART_ETA_MIN_US, HYSTART_ETA_MAX_US);

	ca->round_rtt = min32(ca->round_rtt, delay);
	if (ca->samples < HYSTART_SAMPLES) {
		ca->samples++;
		return false;
	}
	return ca->round_rtt > ca->delay_min + eta;
}

static void hystart(struct sock *sk, struct cubic *ca, u32 delay)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool found = false;

	if (before(ca->round_end, tp->snd_una))
		start_round(sk, ca);
	if (tp->snd_cwnd < (u32)param(sk, low_window))
		return;
	if (param(sk, ack_train))
		found |= train_fills_path(sk, ca);
	if (param(sk, delay))
		found |= delay_has_grown(ca, delay);
	if (found) {
		ca->exit_found = 1;
		tp->snd_ssthresh = tp->snd_cwnd;
	}
}

CC_CALLBACK(void, cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct cubic *ca = inet_csk_ca(sk);
	s32 rtt_us = sample->rtt_us;
	u32 delay;

	if (rtt_us < 0)
		return;
	/* Right after a reduction the queue is still what it was. */
	if (ca->epoch_start && now_ms(sk) - ca->epoch_start < AFTER_EPOCH_MS)
		return;
	delay = max32((u32)rtt_us, 1);
	if (ca->delay_min == 0 || delay < ca->delay_min)
		ca->delay_min = delay;
	if (!ca->exit_found && param(sk, hystart) && tcp_in_slow_start(tcp_sk(sk)))
		hystart(sk, ca, delay);
}

CC_CALLBACK(u32, cubic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(cubic, "CUBIC with HyStart, RFC 9438", PARAMETERS,
	.init = OP(cubic_init),
	.ssthresh = OP(cubic_ssthresh),
	.cong_avoid = OP(cubic_cong_avoid),
	.set_state = OP(cubic_set_state),
	.cwnd_event = OP(cubic_cwnd_event),
	.pkts_acked = OP(cubic_pkts_acked),
	.undo_cwnd = OP(cubic_undo_cwnd))
