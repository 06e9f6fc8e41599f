// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Westwood with ABSE: a loss sets the window to the measured bandwidth times the least round trip, not to a half.
 *
 * Casetti, Gerla, Mascolo, Sanadidi, Wang: "TCP Westwood: End-to-End Congestion Control for Wired/Wireless Networks",
 * Wireless Networks 8, 2002; Wang, Valla, Sanadidi, Gerla: "Adaptive Bandwidth Share Estimation in TCP Westwood",
 * Globecom 2002. In slow start: Wang, Pau, Yamada, Sanadidi, Gerla: "TCP Startup Performance in Large Bandwidth Delay
 * Networks", Infocom 2004.
 *
 *   s_k = packets acknowledged in T_k / T_k             T_k = RTT (VE - RE) / VE, VE = W / RTTmin
 *   estimate = a estimate + (1 - a) s_k                 a = (2 tau - T) / (2 tau + T)
 *   tau = RTT + 10 RTT U / Umax                         U = 0.6 U + 0.4 |s_k - s_k-1|, Umax: largest of ten
 *   ssthresh = estimate x RTTmin on a loss, and while slow start lasts
 *
 * Differences from the papers:
 *  - RE is W / RTT, the rate of a window: T_k is then RTT - RTTmin, the queueing delay. RE as the estimate itself would
 *    take the lag of the filter behind a growing window for congestion. RTT here is the least of a round and the one
 *    before it: a burst that queues behind itself is no congestion
 *  - intervals follow each other instead of sliding, end with the ACK that makes them T_k and eight packets long or a
 *    round trip, and weigh at most T_k or 1/16 of a round trip: gaps that the window leaves say little of the path
 *  - in slow start, and until the first loss, the estimate follows a larger sample at once, since a window that doubles
 *    leaves any filter behind
 *  - the window after a loss is not larger than the one before; without a sample it is half
 * westwood_plus.c is the variant that Linux has under the name of westwood.
 *
 * Units: windows in packets, rates in packets/s << 8, times in us.
 */
#include "tcp.h"

#define PARAMETERS(P)                                                                                                   \
	P(adaptive_start, "switch", 1, 0, 1, "threshold from the estimate in slow start too, not only after a loss")        \
	P(stability, "1", 10, 0, 100, "round trips by which the filter's time constant grows when samples vary most")
CC_PARAMETERS(PARAMETERS)

#define RATE_SHIFT 8
/* Packets that an interval has at least: fewer are an ACK or two, whose spacing is not the path's. */
#define PACKETS_MIN 8
#define INTERVAL_MIN_US 100U
/* Weight of an interval, share of the round trip, that is shorter than this or has a gap. */
#define WEIGHT_SHARE 16
/* Gain of U: 0.6 in parts of 1024. */
#define U_KEEP 614
#define U_ONE 1024
#define U_HISTORY 10
#define GAIN_SHIFT 16
/* 16.7 million packets/s */
#define RATE_MAX 0xffffffffU

struct westwood {
	u64 estimate;  /* 0: none yet */
	u64 sample;    /* the last one */
	u64 varies;    /* U */
	u32 varied[U_HISTORY]; /* newest last */
	u32 round_end; /* sequence number */
	u32 round_rtt; /* least round trip of this round, */
	u32 last_rtt;  /* and of the one before; all ones: none */
	u32 begin_us;  /* of the interval, */
	u32 delivered; /* and what was delivered by then */
	bool running;  /* an interval is */
	bool starting; /* nothing was lost yet */
};
CC_STATE(struct westwood);

/* ssthresh = estimate x RTTmin */
static u32 share(struct sock *sk, const struct westwood *w)
{
	u64 rtt_min = min32(tcp_min_rtt(tcp_sk(sk)), 60 * USEC_PER_SEC);
	u64 packets = w->estimate * rtt_min / USEC_PER_SEC >> RATE_SHIFT;

	return clamp32((u32)min64(packets, TCP_INFINITE_SSTHRESH), 2, TCP_INFINITE_SSTHRESH);
}

/* Slow start, and after it as long as nothing was lost: it may have ended too early. */
static bool adaptive_start(struct sock *sk, const struct westwood *w)
{
	return w->starting || tcp_in_slow_start(tcp_sk(sk));
}

/* Globecom 2002: U, and Umax of its last ten values. */
static u64 time_constant(struct sock *sk, struct westwood *w, u64 sample, u32 rtt)
{
	u64 change = sample > w->sample ? sample - w->sample : w->sample - sample;
	u32 most = 1, varies;

	w->varies = (w->varies * U_KEEP + change * (U_ONE - U_KEEP)) / U_ONE;
	varies = (u32)min64(w->varies, ~0U);
	for (int i = 0; i + 1 < U_HISTORY; i++) {
		w->varied[i] = w->varied[i + 1];
		most = max32(most, w->varied[i]);
	}
	w->varied[U_HISTORY - 1] = varies;
	return rtt + rtt * param(sk, stability) * varies / max32(most, varies);
}

/* estimate = a estimate + (1 - a) sample, where 1 - a = 2 T / (2 tau + T). */
static void learn(struct sock *sk, struct westwood *w, u64 sample, u32 weight_us, u32 rtt)
{
	u64 tau = time_constant(sk, w, sample, rtt), t = min64(weight_us, tau);
	u64 gain = (2 * t << GAIN_SHIFT) / max64(2 * tau + t, 1);

	w->sample = sample;
	if (w->estimate == 0)
		w->estimate = sample;
	else if (sample > w->estimate)
		w->estimate += (sample - w->estimate) * gain >> GAIN_SHIFT;
	else
		w->estimate -= (w->estimate - sample) * gain >> GAIN_SHIFT;
	if (adaptive_start(sk, w))
		w->estimate = max64(w->estimate, sample);
}

/* T_k: how long packets queue, whichever of a round trip. */
static u32 queueing_delay(struct sock *sk, struct westwood *w, u32 rtt)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 least;

	if (!before(tp->snd_una, w->round_end)) {
		w->last_rtt = w->round_rtt;
		w->round_rtt = rtt;
		w->round_end = tp->snd_nxt;
	}
	w->round_rtt = min32(w->round_rtt, rtt);
	least = min32(w->round_rtt, w->last_rtt);
	return least - min32(tcp_min_rtt(tp), least);
}

static void measure(struct sock *sk, struct westwood *w, u32 rtt)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now = (u32)tp->tcp_mstamp, elapsed = now - w->begin_us, packets = tp->delivered - w->delivered;
	u32 interval = max32(queueing_delay(sk, w, rtt), INTERVAL_MIN_US);

	if (w->running) {
		if (elapsed < interval || (packets < PACKETS_MIN && elapsed < rtt))
			return;
		learn(sk, w, min64(((u64)packets << RATE_SHIFT) * USEC_PER_SEC / elapsed, RATE_MAX),
		      min32(elapsed, max32(interval, rtt / WEIGHT_SHARE)), rtt);
	}
	w->running = true;
	w->begin_us = now;
	w->delivered = tp->delivered;
}

CC_CALLBACK(void, westwood_init, struct sock *sk)
{
	struct westwood *w = inet_csk_ca(sk);

	*w = (struct westwood){ .starting = true, .round_end = tcp_sk(sk)->snd_nxt, .round_rtt = ~0U, .last_rtt = ~0U };
}

CC_CALLBACK(void, westwood_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct westwood *w = inet_csk_ca(sk);
	u32 rtt = sample->rtt_us > 0 ? (u32)sample->rtt_us : tcp_sk(sk)->srtt_us >> 3;

	measure(sk, w, clamp32(rtt, 1, 60 * USEC_PER_SEC));
	/* Infocom 2004: the threshold follows the estimate, upwards and downwards. */
	if (adaptive_start(sk, w) && w->estimate != 0 && param(sk, adaptive_start) && ca_state(sk) == TCP_CA_Open)
		tcp_sk(sk)->snd_ssthresh = share(sk, w);
}

CC_CALLBACK(void, westwood_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

/* After an idle time an interval begins with the first ACK. */
CC_CALLBACK(void, westwood_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct westwood *w = inet_csk_ca(sk);

	if (event == CA_EVENT_TX_START)
		w->running = false;
}

CC_CALLBACK(void, westwood_set_state, struct sock *sk, u8 new_state)
{
	struct westwood *w = inet_csk_ca(sk);

	if (new_state > TCP_CA_Disorder)
		w->starting = false;
}

CC_CALLBACK(u32, westwood_ssthresh, struct sock *sk)
{
	struct westwood *w = inet_csk_ca(sk);

	if (w->estimate == 0)
		return tcp_reno_ssthresh(sk);
	return max32(min32(share(sk, w), tcp_sk(sk)->snd_cwnd), 2);
}

CC_CALLBACK(u32, westwood_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(westwood, "Westwood with adaptive bandwidth share estimation, Wang et al. 2002", PARAMETERS,
	.init = OP(westwood_init),
	.ssthresh = OP(westwood_ssthresh),
	.cong_avoid = OP(westwood_cong_avoid),
	.set_state = OP(westwood_set_state),
	.cwnd_event = OP(westwood_cwnd_event),
	.pkts_acked = OP(westwood_pkts_acked),
	.undo_cwnd = OP(westwood_undo_cwnd))
