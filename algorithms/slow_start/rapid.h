/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Rapid Start: the window triples per round trip while no queue builds, and the first loss cuts it gently.
 *
 * Oku: draft-kazuho-ccwg-rapid-start-02 (2026). Differences:
 *  - the initial window is the host's, without a full round trip of pacing: Linux sets the pacing rate itself, of two
 *    windows per round trip, after the algorithm has begun and after each ACK
 *  - windows are in packets; the sums of the first recovery end when they account for all that was in flight at its
 *    beginning, since packets sent in it are counted by the same totals
 *  - proportional rate reduction of the host follows the falling threshold, and decides on each packet
 *  - Westwood+ sets its own window at the end of a recovery, CUBIC and BIC keep the window before the loss as their maximum
 * For Hybla: twice 2^rho - 1 per ACK.
 */
#ifndef PERIGEE_SLOW_START_RAPID_H
#define PERIGEE_SLOW_START_RAPID_H

#include "slow_start/state.h"

/* Two packets per packet acknowledged: three windows per round trip (section 3.2). */
#define RAPID_GAIN (2 * GAIN_ONE)
/* Most growth of the round trip without a queue: 4 ms, or a tenth. */
#define RAPID_MARGIN_US 4000U
#define RAPID_MARGIN(rtt) min32(RAPID_MARGIN_US, (rtt) / 10)

static inline void rapid(struct sock *sk, struct slow_start *ss, u32 delay)
{
	if (before(ss->round_end, tcp_sk(sk)->snd_una))
		slow_start_round(sk, ss);
	ss->round_rtt = min32(ss->round_rtt, delay);
}

/* The least round trip of this round shows no queue. */
static inline bool rapid_is_fast(const struct slow_start *ss)
{
	return ss->round_rtt <= ss->rtt_min + RAPID_MARGIN(ss->rtt_min);
}

/* Silence: beta + 2/3 (1 - beta), of the window (section 3.3.1). */
static inline u32 rapid_silence(const struct rapid *r)
{
	return r->kept + (r->cwnd - r->kept) * 2 / 3;
}

/* The first loss. `kept` is what the algorithm keeps of its window. Returns the threshold for the beginning. */
static inline u32 rapid_cut(struct sock *sk, struct rapid *r, u32 kept)
{
	struct tcp_sock *tp = tcp_sk(sk);

	*r = (struct rapid){
		.cwnd = tp->snd_cwnd,
		.kept = min32(kept, tp->snd_cwnd),
		.flight = tp->packets_out - tp->sacked_out,
		.delivered = tp->delivered,
		.lost = tp->lost - tp->lost_out,
	};
	return max32(rapid_silence(r), 2);
}

/*
 * In the first recovery: less by 2/3 (1 - beta) for each packet that arrived and by the silence factor for each that was
 * lost, no less than beta / 3. Ends with all packets of the flight.
 */
static inline void rapid_recover(struct sock *sk, struct rapid *r)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 silence = rapid_silence(r), lost = min32(tp->lost - r->lost, r->flight);
	u32 arrived = min32(tp->delivered - r->delivered, r->flight - lost);
	u64 cut = ((u64)arrived * (silence - r->kept) + (u64)lost * silence) / r->cwnd;

	tp->snd_ssthresh = max32(silence - (u32)min64(cut, silence), max32(r->kept / 3, 2));
	if (arrived + lost == r->flight)
		r->cwnd = 0;
}

#endif
