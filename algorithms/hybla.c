// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Hybla: a connection with a long round trip sends as fast as a terrestrial one of round trip RTT0 would.
 *
 * Caini, Firrincieli: "TCP Hybla: a TCP enhancement for heterogeneous networks", International Journal of Satellite
 * Communications and Networking 22(5), 2004.
 *
 *   rho = RTT / RTT0;   slow start: W += 2^rho - 1 per ACK;   avoidance: W += rho^2 / W per ACK
 *
 * Differences from the paper (as Linux):
 *  - rho comes from the least smoothed round trip, and is at least 1
 *  - the first window is rho (paper: rho times the usual one), and the first threshold the host's (paper: rho times the usual one);
 *    windows end at 65535
 *  - one increment per ACK, whatever number of packets it covers; 2^rho counts up to rho = 16
 *  - outside the Open state the window grows as Reno's
 *  - pacing and Hoe's estimate of the first threshold are off; the parameters `pacing` and `estimate` turn them on
 * With `estimate` the first window is not grown by Hybla's rule: its ACKs measure the path (Hoe: "Improving the
 * start-up behavior of a congestion control scheme for TCP", 1996) before the first increment, which at a geostationary
 * round trip would already be the largest window there is. An ACK that the receiver delayed ends the measurement, which
 * pacing waits for.
 *
 * Units: windows in packets; `rho_8` is rho << 3, `rho2_128` is rho^2 << 7, increments are << 7.
 */
#include "tcp.h"
#include "slow_start/parameters.h"

#define PARAMETERS(P)                                                                                                   \
	P(rtt0, "us", 25000, 1000, 1000000, "round trip of the terrestrial connection to be equal to")                      \
	P(pacing, "switch", 0, 0, 1, "spread each window over the round trip")                                              \
	P(estimate, "switch", 0, 0, 1, "set the first threshold to the measured bandwidth-delay product")                   \
	P(train, "packets", 4, 2, 1000, "estimate: fewest packets, behind the first, whose spacing is a measurement")       \
	SLOW_START_PARAMETERS(P, SLOW_START_CLASSIC)
CC_PARAMETERS(PARAMETERS)

#include "slow_start/state.h"

CC_STORAGE(struct slow_start)
#include "slow_start/slow_start.h"

/* Windows up to here, as the option-free TCP window of the original. */
#define WINDOW_MAX 65535U
/* Fractions of a packet: 128 of them. */
#define INC_SHIFT 7
#define INC_ONE (1U << INC_SHIFT)
#define RHO_SHIFT 3
/* Largest exponent of 2^rho. */
#define RHO_EXP_MAX 16U

enum { MEASURE_OFF, MEASURE_WAIT, MEASURE_TRAIN };

struct hybla {
	u32 rho_8;     /* rho << 3 */
	u32 rho2_128;  /* rho^2 << 7 */
	u32 fraction;  /* of a packet, in 1/128 */
	u32 least_srtt; /* us << 3 */
	bool open;     /* Hybla's rules apply */
	u8 measure;
	u32 train_start; /* us */
	u32 train_last;  /* its last ACK, us */
	u32 train_packets;
	u32 train_end; /* sequence number */
};
CC_STATE(struct hybla);

/* rho = RTT / RTT0; srtt_us is << 3 already. */
static void measure_rho(struct sock *sk, struct hybla *ca)
{
	u32 rtt0 = max32((u32)param(sk, rtt0), 1);

	ca->rho_8 = max32(tcp_sk(sk)->srtt_us / rtt0, 1U << RHO_SHIFT);
	/* << 6 from the two rho_8, << 1 more */
	ca->rho2_128 = (u32)min64((u64)ca->rho_8 * ca->rho_8 << 1, ~0U);
}

static void start_pacing(struct sock *sk)
{
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

CC_CALLBACK(void, hybla_init, struct sock *sk)
{
	struct hybla *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	*ca = (struct hybla){ .open = true, .least_srtt = tp->srtt_us };
	measure_rho(sk, ca);
	slow_start_init(sk);
	tp->snd_cwnd = min32(ca->rho_8 >> RHO_SHIFT, WINDOW_MAX);
	if (param(sk, estimate))
		ca->measure = MEASURE_WAIT;
	else if (param(sk, pacing))
		start_pacing(sk);
}

CC_CALLBACK(void, hybla_set_state, struct sock *sk, u8 new_state)
{
	struct hybla *ca = inet_csk_ca(sk);

	ca->open = new_state == TCP_CA_Open;
	if (new_state == TCP_CA_Loss)
		slow_start_timeout(sk);
}

/* 2^(i/8) << 7, rounded down, for the fraction of rho. */
CC_TABLE u8 exp2_eighths[8] = { 128, 139, 152, 165, 181, 197, 215, 234 };

/* Slow start: 2^rho - 1. */
static u32 slow_start_increment(const struct hybla *ca)
{
	u32 whole = min32(ca->rho_8 >> RHO_SHIFT, RHO_EXP_MAX);

	return ((u32)exp2_eighths[ca->rho_8 & 7] << whole) - INC_ONE;
}

/* An ACK that took more than twice as long per packet as those before it was delayed by the receiver. */
static bool was_delayed(struct sock *sk, const struct hybla *ca, u32 now, u32 acked)
{
	u64 mean = (u64)(ca->train_last - ca->train_start) * acked;

	return ca->train_packets >= param(sk, train) && (u64)(now - ca->train_last) * ca->train_packets > 2 * mean;
}

/* Hoe: the first window leaves back to back, so its ACKs are spaced by the bottleneck: ssthresh = bandwidth x RTT. */
static void measure_train(struct sock *sk, struct hybla *ca, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now = (u32)tp->tcp_mstamp, length;
	bool delayed;

	if (ca->measure == MEASURE_WAIT) {
		ca->measure = MEASURE_TRAIN;
		ca->train_start = ca->train_last = now;
		ca->train_end = tp->snd_nxt;
		return;
	}
	delayed = was_delayed(sk, ca, now, acked);
	if (!delayed) {
		ca->train_packets += acked;
		ca->train_last = now;
		if (before(ack, ca->train_end))
			return;
	}
	ca->measure = MEASURE_OFF;
	if (param(sk, pacing))
		start_pacing(sk);
	length = ca->train_last - ca->train_start;
	if (length == 0 || ca->train_packets < param(sk, train))
		return;
	tp->snd_ssthresh = clamp32((u32)min64((u64)ca->train_packets * min32(tcp_min_rtt(tp), tp->srtt_us >> 3) / length,
					      WINDOW_MAX), 2, TCP_INFINITE_SSTHRESH);
}

static void grow(struct sock *sk, struct hybla *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool slow_start = tcp_in_slow_start(tp);
	u32 increment;
	u64 cwnd;

	if (slow_start) {
		increment = (u32)((u64)slow_start_increment(ca) * slow_start_gain(sk) / GAIN_ONE);
	} else {
		increment = ca->rho2_128 / max32(tp->snd_cwnd, 1);
		if (increment < INC_ONE)
			tp->snd_cwnd_cnt++;
	}
	ca->fraction += increment % INC_ONE;
	cwnd = (u64)tp->snd_cwnd + (increment >> INC_SHIFT) + (ca->fraction >> INC_SHIFT);
	if (ca->fraction >= INC_ONE)
		tp->snd_cwnd_cnt = 0;
	ca->fraction %= INC_ONE;
	/* An increment below 1/128 would never add up: then one packet per window, as Reno. */
	if (increment == 0 && tp->snd_cwnd_cnt >= tp->snd_cwnd) {
		cwnd++;
		tp->snd_cwnd_cnt = 0;
	}
	if (slow_start)
		cwnd = min64(cwnd, tp->snd_ssthresh);
	tp->snd_cwnd = (u32)min64(cwnd, tp->snd_cwnd_clamp);
}

CC_CALLBACK(void, hybla_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);

	if (tp->srtt_us < ca->least_srtt || ca->least_srtt == 0) {
		measure_rho(sk, ca);
		ca->least_srtt = tp->srtt_us;
	}
	if (ca->measure != MEASURE_OFF) {
		measure_train(sk, ca, ack, acked);
		slow_start_reno(sk, acked);
	} else if (!ca->open) {
		slow_start_reno(sk, acked);
	} else if (tcp_is_cwnd_limited(sk)) {
		if (tcp_in_slow_start(tp) && limited_holds(sk))
			limited_grow(sk, acked);
		else
			grow(sk, ca);
	}
	tp->snd_cwnd = min32(tp->snd_cwnd, WINDOW_MAX);
}

CC_CALLBACK(void, hybla_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	slow_start_acked(sk, sample);
}

CC_CALLBACK(u32, hybla_ssthresh, struct sock *sk)
{
	return slow_start_reduce(sk, tcp_reno_ssthresh(sk));
}

CC_CALLBACK(u32, hybla_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(hybla, "Hybla, Caini and Firrincieli 2004", PARAMETERS,
	.init = OP(hybla_init),
	.ssthresh = OP(hybla_ssthresh),
	.cong_avoid = OP(hybla_cong_avoid),
	.set_state = OP(hybla_set_state),
	.pkts_acked = OP(hybla_pkts_acked),
	.undo_cwnd = OP(hybla_undo_cwnd))
