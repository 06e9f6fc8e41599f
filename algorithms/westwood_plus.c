// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Westwood+: Reno, but a loss sets the window to the measured bandwidth times the least round trip.
 *
 * Grieco, Mascolo: "Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP congestion control",
 * ACM SIGCOMM CCR 34(2), 2004; Mascolo, Casetti, Gerla, Sanadidi, Wang: "TCP Westwood: Bandwidth Estimation for Enhanced
 * Transport over Wireless Links", MobiCom 2001. Linux calls it `westwood`.
 *
 *   per round trip: b = bytes / time;   b' = 7/8 b' + 1/8 b;   B = 7/8 B + 1/8 b';   loss: ssthresh = B RTTmin
 *
 * Differences from the paper (as Linux):
 *  - two filters in a row; the first sample fills both; samples are at least 50 ms apart
 *  - the window becomes B RTTmin when recovery ends (until then Reno's half governs); after a timeout only the threshold
 *  - RTTmin starts anew after a timeout
 *  - of an ACK for more than a segment, what duplicate ACKs announced before is not counted again
 * Linux before 3.2 took the least of smoothed round trips, and bounded the window by B RTTmin during recovery, too:
 * `rtt` and `reduction`.
 * Differences from Linux: its clock ticks at 1 kHz, unless the host has a tick; bandwidth keeps sixteenths, which its two roundings cut.
 *
 * Units: bytes and ms; bandwidth in bytes/ms << 4.
 */
#include "tcp.h"
#include "slow_start/parameters.h"

#define PARAMETERS(P)                                                                                                   \
	P(rtt, "sample|smoothed", 0, 0, 1, "round trips whose least is RTTmin: samples, or the host's smoothed one")        \
	P(reduction, "half|estimate", 0, 0, 1, "bound of the window until recovery ends: Reno's half, or B RTTmin")         \
	SLOW_START_PARAMETERS(P, SLOW_START_CLASSIC)
CC_PARAMETERS(PARAMETERS)

#include "slow_start/state.h"

CC_STORAGE(struct slow_start)
#include "slow_start/slow_start.h"

enum { SAMPLE, SMOOTHED };
enum { HALF, ESTIMATE };

#define BANDWIDTH_SHIFT 4
/* Shortest time of a bandwidth sample, and the round trip before the first measurement, ms. */
#define SAMPLE_MIN_MS 50U
#define FIRST_RTT_MS 20000U
/* A flag of in_ack_event: the ACK did not take the short cut of header prediction. */
#define ACK_SLOWPATH 1U

struct westwood {
	u64 bytes;        /* acknowledged in this sample */
	u32 stage;        /* b' */
	u32 bandwidth;    /* B */
	u32 sample_start;
	u32 snd_una;      /* at the last ACK */
	u32 announced;    /* bytes counted by duplicate ACKs, of segments not yet acknowledged */
	u32 rtt;
	u32 min_rtt;
	bool first_ack;
	bool restart_min;
	bool reduces; /* recovery, or what a congestion mark asks for */
};
CC_STATE(struct westwood);

CC_CALLBACK(void, westwood_plus_init, struct sock *sk)
{
	struct westwood *ca = inet_csk_ca(sk);

	*ca = (struct westwood){
		.rtt = FIRST_RTT_MS,
		.min_rtt = FIRST_RTT_MS,
		.sample_start = jiffies_ms(sk),
		.snd_una = tcp_sk(sk)->snd_una,
		.first_ack = true,
		.restart_min = true,
	};
	slow_start_init(sk);
}

static u32 low_pass(u32 mean, u32 sample)
{
	return (u32)((7 * (u64)mean + sample) >> 3);
}

/* Both stages take a sample. */
static void filter(struct westwood *ca, u32 elapsed)
{
	u32 sample = (u32)min64((ca->bytes << BANDWIDTH_SHIFT) / max32(elapsed, 1), ~0U);

	if (ca->stage == 0 && ca->bandwidth == 0) {
		ca->stage = ca->bandwidth = sample;
		return;
	}
	ca->stage = low_pass(ca->stage, sample);
	ca->bandwidth = low_pass(ca->bandwidth, ca->stage);
}

/* A sample is complete after a round trip. */
static void take_sample(struct sock *sk, struct westwood *ca)
{
	u32 now = jiffies_ms(sk), elapsed = now - ca->sample_start;

	if (ca->first_ack) {
		ca->snd_una = tcp_sk(sk)->snd_una;
		ca->first_ack = false;
	}
	if (ca->rtt == 0 || elapsed <= max32(ca->rtt, SAMPLE_MIN_MS))
		return;
	filter(ca, elapsed);
	ca->bytes = 0;
	ca->sample_start = now;
}

/* Bytes that this ACK adds: a duplicate stands for a segment, which the ACK that ends the hole does not count again. */
static u32 newly_acked(struct tcp_sock *tp, struct westwood *ca)
{
	u32 acked = tp->snd_una - ca->snd_una, mss = tp->mss_cache;

	if (acked == 0) {
		ca->announced += mss;
		return mss;
	}
	if (acked <= mss)
		return acked;
	if (ca->announced >= acked) {
		ca->announced -= acked;
		return mss;
	}
	acked -= ca->announced;
	ca->announced = 0;
	return acked;
}

/* B RTTmin, in packets. */
static u32 pipe(struct tcp_sock *tp, struct westwood *ca)
{
	u64 bytes = (u64)ca->bandwidth * ca->min_rtt >> BANDWIDTH_SHIFT;

	return clamp32((u32)min64(bytes / max32(tp->mss_cache, 1), ~0U), 2, TCP_INFINITE_SSTHRESH);
}

CC_CALLBACK(void, westwood_plus_in_ack_event, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *ca = inet_csk_ca(sk);

	take_sample(sk, ca);
	ca->bytes += flags & ACK_SLOWPATH ? newly_acked(tp, ca) : tp->snd_una - ca->snd_una;
	ca->snd_una = tp->snd_una;
	ca->min_rtt = ca->restart_min ? ca->rtt : min32(ca->rtt, ca->min_rtt);
	ca->restart_min = false;
	if (ca->reduces && param(sk, reduction) == ESTIMATE)
		tp->snd_ssthresh = pipe(tp, ca);
}

CC_CALLBACK(void, westwood_plus_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct westwood *ca = inet_csk_ca(sk);

	if (param(sk, rtt) == SMOOTHED)
		ca->rtt = max32((tcp_sk(sk)->srtt_us >> 3) / USEC_PER_MSEC, 1);
	else if (sample->rtt_us > 0)
		ca->rtt = us_to_jiffies_ms(sk, (u32)sample->rtt_us);
	slow_start_acked(sk, sample);
}

CC_CALLBACK(void, westwood_plus_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *ca = inet_csk_ca(sk);

	if (event == CA_EVENT_COMPLETE_CWR) {
		tp->snd_ssthresh = pipe(tp, ca);
		tp->snd_cwnd = min32(tp->snd_ssthresh, tp->snd_cwnd_clamp);
	} else if (event == CA_EVENT_LOSS) {
		tp->snd_ssthresh = pipe(tp, ca);
		ca->restart_min = true;
	}
}

CC_CALLBACK(u32, westwood_plus_ssthresh, struct sock *sk)
{
	struct westwood *ca = inet_csk_ca(sk);

	return slow_start_reduce(sk, param(sk, reduction) == HALF ? tcp_reno_ssthresh(sk) : pipe(tcp_sk(sk), ca));
}

CC_CALLBACK(void, westwood_plus_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	slow_start_reno(sk, acked);
}

CC_CALLBACK(void, westwood_plus_set_state, struct sock *sk, u8 new_state)
{
	struct westwood *ca = inet_csk_ca(sk);

	ca->reduces = new_state == TCP_CA_Recovery || new_state == TCP_CA_CWR;
	if (new_state == TCP_CA_Loss)
		slow_start_timeout(sk);
}

CC_CALLBACK(u32, westwood_plus_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(westwood_plus, "Westwood+, Grieco and Mascolo 2004", PARAMETERS,
	.init = OP(westwood_plus_init),
	.ssthresh = OP(westwood_plus_ssthresh),
	.cong_avoid = OP(westwood_plus_cong_avoid),
	.set_state = OP(westwood_plus_set_state),
	.cwnd_event = OP(westwood_plus_cwnd_event),
	.in_ack_event = OP(westwood_plus_in_ack_event),
	.pkts_acked = OP(westwood_plus_pkts_acked),
	.undo_cwnd = OP(westwood_plus_undo_cwnd))
