// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * H-TCP: growth accelerates with the time since the last loss; a loss gives up what the queue held.
 *
 * Leith, Shorten: "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004; draft-leith-tcp-htcp-06 (2008).
 *
 *   avoidance: W += alpha / W per packet;   loss: W *= beta
 *   alpha = 2 (1 - beta) f(Delta),   f = 1 up to Delta_L, then 1 + 10 (Delta - Delta_L) + ((Delta - Delta_L) / 2)^2
 *   beta = RTTmin / RTTmax within 0.5 and 0.8, or 0.5 where the throughput changed by more than a fifth since the loss
 *   before
 *
 * Differences from the draft (as Linux):
 *  - f is a whole number; with `rtt_scaling` f is multiplied by RTTmin / 100 ms within 0.1 and 2
 *  - beta is 0.5 on the first loss, and after one at which the throughput changed
 *  - RTTmax grows by 20 ms per sample at most, in the Open state only, and fades by 5 % of the queue on each loss
 *  - throughput is the mean (weight 1/4) of windows of packets, from three round trips after a loss
 *  - growth counts the packets of ACKs in the Open state, one per ACK outside it; slow start counts packets
 * `smoothed`: the smoothed round trip in place of each sample, as the Linux that TCP-Linux of ns-2 hosts.
 * Differences from Linux: its clock ticks at 1 kHz; f has 64 bits, where Linux overflows minutes after a loss.
 *
 * Units: packets; times in ms, rounded up; alpha and beta << 7; throughput in packets/s.
 */
#include "tcp.h"
#include "slow_start/parameters.h"

#define PARAMETERS(P)                                                                                                   \
	P(delta_l, "us", 1000000, 0, 60000000, "time after a loss for which growth is Reno's")                              \
	P(rtt_scaling, "switch", 1, 0, 1, "growth per second independent of the round trip")                                \
	P(bandwidth_switch, "switch", 1, 0, 1, "halve where the throughput changed since the loss before")                  \
	P(smoothed, "switch", 0, 0, 1, "least and largest round trip are of the smoothed one, not of samples")              \
	SLOW_START_PARAMETERS(P, SLOW_START_CLASSIC)
CC_PARAMETERS(PARAMETERS)

#include "slow_start/state.h"

CC_STORAGE(struct slow_start)
#include "slow_start/slow_start.h"

#define ONE_SHIFT 7
#define ONE (1U << ONE_SHIFT)
#define BETA_MIN (ONE / 2)
/* 0.8 */
#define BETA_MAX 102U
/* Round trips up to this are too short to say how long the queue was, ms. */
#define BETA_RTT_MS 10
#define MAX_RTT_STEP_MS 20
/* Scale << 3 of the round trip: 100 ms / RTTmin within 0.5 and 10. */
#define SCALE_MIN 4U
#define SCALE_MAX 80U
#define SCALE_NUMERATOR 800U
/* Round trips after a loss whose throughput starts the mean anew. */
#define FRESH_ROUNDS 3

struct htcp {
	u32 alpha;       /* << 7 */
	u32 beta;        /* << 7 */
	u32 min_rtt;     /* 0: none */
	u32 max_rtt;
	u32 last_loss;   /* time */
	u32 packets;     /* acknowledged in this window of throughput */
	u32 since;       /* its beginning */
	u32 throughput;
	u32 max_throughput; /* since the last loss */
	u32 old_throughput; /* the maximum before it */
	/* Values that the last reduction replaced: */
	u32 undo_last_loss;
	u32 undo_max_rtt;
	u32 undo_old_throughput;
	u16 acked;       /* packets of the ACK at hand */
	bool may_undo;
	bool adaptive;   /* beta follows the round trips */
};
CC_STATE(struct htcp);

CC_CALLBACK(void, htcp_init, struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);
	u32 now = jiffies_ms(sk);

	*ca = (struct htcp){ .alpha = ONE, .beta = BETA_MIN, .acked = 1, .last_loss = now, .since = now };
	slow_start_init(sk);
}

static void measure_rtt(struct sock *sk, struct htcp *ca, u32 rtt)
{
	if (rtt < ca->min_rtt || ca->min_rtt == 0)
		ca->min_rtt = rtt;
	if (ca_state(sk) != TCP_CA_Open)
		return;
	ca->max_rtt = max32(ca->max_rtt, ca->min_rtt);
	if (rtt > ca->max_rtt && rtt <= ca->max_rtt + MAX_RTT_STEP_MS)
		ca->max_rtt = rtt;
}

static void measure_throughput(struct sock *sk, struct htcp *ca, u32 acked)
{
	u32 now = jiffies_ms(sk), elapsed = now - ca->since, cwnd = tcp_sk(sk)->snd_cwnd, sample;

	if (ca_state(sk) > TCP_CA_Disorder) {
		ca->packets = 0;
		ca->since = now;
		return;
	}
	ca->packets += acked;
	/* A window, as it was a round trip ago. */
	if (ca->packets + max32(ca->alpha >> ONE_SHIFT, 1) < cwnd || elapsed < ca->min_rtt || ca->min_rtt == 0)
		return;
	sample = (u32)min64((u64)ca->packets * 1000 / max32(elapsed, 1), ~0U);
	if ((now - ca->last_loss) / max32(ca->min_rtt, 1) <= FRESH_ROUNDS) {
		ca->throughput = ca->max_throughput = sample;
	} else {
		ca->throughput = (u32)((3 * (u64)ca->throughput + sample) / 4);
		ca->max_throughput = max32(ca->max_throughput, ca->throughput);
	}
	ca->packets = 0;
	ca->since = now;
}

/* The sample, or the smoothed round trip that has it already; us. */
static u32 round_trip(struct sock *sk, const struct ack_sample *sample)
{
	u32 smoothed = tcp_sk(sk)->srtt_us >> 3;

	return param(sk, smoothed) && smoothed ? smoothed : (u32)sample->rtt_us;
}

CC_CALLBACK(void, htcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct htcp *ca = inet_csk_ca(sk);

	slow_start_acked(sk, sample);
	if (ca_state(sk) == TCP_CA_Open)
		ca->acked = (u16)min32(sample->pkts_acked, 0xffff);
	if (sample->rtt_us > 0)
		measure_rtt(sk, ca, us_to_jiffies_ms(sk, round_trip(sk, sample)));
	if (param(sk, bandwidth_switch))
		measure_throughput(sk, ca, sample->pkts_acked);
}

/* beta = RTTmin / RTTmax: the queue is empty after the reduction, and not for long. */
static void update_beta(struct sock *sk, struct htcp *ca)
{
	u64 fresh = 5ULL * ca->max_throughput, old = ca->old_throughput;
	bool changed = param(sk, bandwidth_switch) && (fresh < 4 * old || fresh > 6 * old);

	if (param(sk, bandwidth_switch))
		ca->old_throughput = ca->max_throughput;
	if (changed) {
		ca->beta = BETA_MIN;
		ca->adaptive = false;
	} else if (ca->adaptive && ca->min_rtt > BETA_RTT_MS && ca->max_rtt) {
		ca->beta = clamp32((u32)(((u64)ca->min_rtt << ONE_SHIFT) / ca->max_rtt), BETA_MIN, BETA_MAX);
	} else {
		ca->beta = BETA_MIN;
		ca->adaptive = true;
	}
}

/* alpha = 2 (1 - beta) f(Delta) */
static void update_alpha(struct sock *sk, struct htcp *ca)
{
	u64 delta = jiffies_ms(sk) - ca->last_loss, delta_l = param(sk, delta_l) / USEC_PER_MSEC, factor = 1;

	if (delta > delta_l) {
		u64 t = delta - delta_l;

		factor += (10 * t + (t / 2) * (t / 2) / 1000) / 1000;
	}
	if (param(sk, rtt_scaling) && ca->min_rtt)
		factor = max64((factor << 3) / clamp32(SCALE_NUMERATOR / ca->min_rtt, SCALE_MIN, SCALE_MAX), 1);
	ca->alpha = (u32)min64(max64(2 * factor * (ONE - ca->beta), 1), ~0U);
}

CC_CALLBACK(u32, htcp_ssthresh, struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);
	u32 min_rtt = ca->min_rtt, max_rtt = ca->max_rtt;

	update_beta(sk, ca);
	update_alpha(sk, ca);
	/* Fade, for a path that became shorter. */
	if (min_rtt > 0 && max_rtt > min_rtt)
		ca->max_rtt = min_rtt + (u32)((u64)(max_rtt - min_rtt) * 95 / 100);
	return slow_start_reduce(sk, max32((u32)((u64)tcp_sk(sk)->snd_cwnd * ca->beta >> ONE_SHIFT), 2));
}

CC_CALLBACK(void, htcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		slow_start_grow(sk, acked);
		return;
	}
	if ((u64)tp->snd_cwnd_cnt * ca->alpha >> ONE_SHIFT >= tp->snd_cwnd) {
		if (tp->snd_cwnd < tp->snd_cwnd_clamp)
			tp->snd_cwnd++;
		tp->snd_cwnd_cnt = 0;
		update_alpha(sk, ca);
	} else {
		tp->snd_cwnd_cnt += ca->acked;
	}
	ca->acked = 1;
}

CC_CALLBACK(void, htcp_set_state, struct sock *sk, u8 new_state)
{
	struct htcp *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		slow_start_timeout(sk);
	if (new_state == TCP_CA_Open) {
		/* Delta counts from the end of recovery. */
		if (ca->may_undo)
			ca->last_loss = jiffies_ms(sk);
		ca->may_undo = false;
	} else if (new_state >= TCP_CA_CWR) {
		ca->undo_last_loss = ca->last_loss;
		ca->undo_max_rtt = ca->max_rtt;
		ca->undo_old_throughput = ca->old_throughput;
		ca->may_undo = true;
		ca->last_loss = jiffies_ms(sk);
	}
}

CC_CALLBACK(u32, htcp_undo_cwnd, struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);

	if (ca->may_undo) {
		ca->last_loss = ca->undo_last_loss;
		ca->max_rtt = ca->undo_max_rtt;
		ca->old_throughput = ca->undo_old_throughput;
		ca->may_undo = false;
	}
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(htcp, "H-TCP, Leith and Shorten 2004", PARAMETERS,
	.init = OP(htcp_init),
	.ssthresh = OP(htcp_ssthresh),
	.cong_avoid = OP(htcp_cong_avoid),
	.set_state = OP(htcp_set_state),
	.pkts_acked = OP(htcp_pkts_acked),
	.undo_cwnd = OP(htcp_undo_cwnd))
