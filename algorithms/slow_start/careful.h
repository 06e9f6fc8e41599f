/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Careful Resume: a connection begins with half the window that an earlier one used, if the path looks the same.
 *
 * RFC 9959 (2026). The parameters say what was saved: window, least round trip, age; in the kernel also the memory of paths,
 * where it is on, into which each connection saves what arrived in its last round trip. Phases: reconnaissance until the
 * initial data are acknowledged, unvalidated while the larger window is sent, validating until it is acknowledged, safe
 * retreat after a loss in one of the last two. Differences from the RFC:
 *  - unvalidated packets are paced over 5/6 of a round trip: Linux sets the rate to 1.2 windows per round trip, once the
 *    threshold is at two windows
 *  - in the retreat the host's proportional rate reduction leads to half the pipe, where the RFC has the window fall at
 *    once; for each packet that arrives it sends the share of the window that is left
 *  - a change of the path is looked for before the jump alone
 *  - connections that begin together all use the parameters; of the memory, one at a time
 *  - Beta is a half
 */
#ifndef PERIGEE_SLOW_START_CAREFUL_H
#define PERIGEE_SLOW_START_CAREFUL_H

#include "slow_start/state.h"

CC_PATHS

enum {
	CAREFUL_BEGINNING,
	CAREFUL_RECONNAISSANCE,
	CAREFUL_UNVALIDATED,
	CAREFUL_VALIDATING,
	CAREFUL_RETREAT,
	CAREFUL_OBSERVING,
};

/* The initial window, below which nothing is reduced (RFC 6928). */
#define CAREFUL_LEAST 10U
/* A path of less is found as fast without a memory. */
#define CAREFUL_WORTH (4 * CAREFUL_LEAST)

/* Section 4.2.1: more than half the saved round trip, no more than ten of it; and not too old. */
static inline bool careful_fits(struct sock *sk, const struct path_saved *saved, u32 rtt)
{
	return saved->age_us <= param(sk, lifetime) && 2ULL * rtt > saved->rtt_us && rtt <= 10ULL * saved->rtt_us;
}

/* The window to jump to, within `most`; 0: none. */
static inline u32 careful_window(struct sock *sk, struct careful *c, u32 rtt, u32 most)
{
	struct path_saved saved = {
		.age_us = param(sk, saved_age) + since_loading_us(sk),
		.window = (u32)param(sk, saved_window),
		.rtt_us = (u32)param(sk, saved_rtt),
	};
	u32 jump;

	c->claims = path_memory(sk) && path_claim(sk, &saved);
	jump = careful_fits(sk, &saved, rtt) ? min32(saved.window / 2, most) : 0;
	return jump > tcp_sk(sk)->snd_cwnd ? jump : 0;
}

/* PipeSize: in flight at the jump, and all that arrived since. */
static inline u32 careful_pipe(struct sock *sk, const struct careful *c)
{
	return c->pipe + (tcp_sk(sk)->delivered - c->delivered);
}

static inline void careful_unpace(struct sock *sk, struct careful *c)
{
	if (c->paced)
		sk->sk_pacing_status = SK_PACING_NONE;
	c->paced = 0;
}

static inline void careful_end(struct sock *sk, struct slow_start *ss)
{
	careful_unpace(sk, &ss->careful);
	if (ss->careful.claims)
		path_release(sk);
	ss->careful.claims = 0;
	ss->over = 1;
}

/* Half the saved window. The threshold of two of them makes the host pace; the window does not grow meanwhile. */
static inline void careful_jump(struct sock *sk, struct careful *c, u32 jump)
{
	struct tcp_sock *tp = tcp_sk(sk);

	*c = (struct careful){
		.phase = CAREFUL_UNVALIDATED,
		.limit = tp->snd_nxt,
		.start = slow_start_clock(sk),
		.pipe = tcp_packets_in_flight(tp),
		.delivered = tp->delivered,
		.ssthresh = tp->snd_ssthresh,
		.paced = sk->sk_pacing_status == SK_PACING_NONE,
		.claims = c->claims,
	};
	sk->sk_pacing_status = SK_PACING_NEEDED;
	tp->snd_cwnd = jump;
	tp->snd_ssthresh = 2 * jump;
}

/* The initial data arrived: jump, as soon as the window is what limits the sender. */
static inline void careful_reconnoitre(struct sock *sk, struct slow_start *ss)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 jump;

	if (before(tp->snd_una, ss->careful.limit) || !window_was_the_limit(sk))
		return;
	jump = careful_window(sk, &ss->careful, ss->rtt_min, min32(tp->snd_ssthresh, tp->snd_cwnd_clamp));
	if (jump)
		careful_jump(sk, &ss->careful, jump);
	else
		careful_end(sk, ss);
}

/* All was sent, or some of it acknowledged, or a round trip has passed: the window becomes what is in flight. */
static inline void careful_send(struct sock *sk, struct slow_start *ss, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct careful *c = &ss->careful;
	u32 flight = tcp_packets_in_flight(tp), pipe = careful_pipe(sk, c);

	if (flight + acked < tp->snd_cwnd && !before(c->limit, tp->snd_una) &&
	    slow_start_clock(sk) - c->start <= tp->srtt_us >> 3)
		return;
	tp->snd_ssthresh = c->ssthresh;
	careful_unpace(sk, c);
	if (flight <= pipe || flight < CAREFUL_LEAST) {
		tp->snd_cwnd = min32(tp->snd_cwnd, max32(pipe, CAREFUL_LEAST));
		careful_end(sk, ss);
		return;
	}
	tp->snd_cwnd = min32(tp->snd_cwnd, flight);
	c->limit = tp->snd_nxt;
	c->phase = CAREFUL_VALIDATING;
}

/* After the recovery: the threshold is half of what arrived of the flight. */
static inline void careful_return(struct sock *sk, struct slow_start *ss)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct careful *c = &ss->careful;
	u32 lost = min32(tp->lost - c->lost, c->flight);
	u32 pipe = c->pipe + min32(tp->delivered - c->delivered, c->flight - lost);

	tp->snd_ssthresh = max32(tp->snd_ssthresh, pipe / 2);
	careful_end(sk, ss);
}

static inline void careful(struct sock *sk, struct slow_start *ss, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct careful *c = &ss->careful;

	switch (c->phase) {
	case CAREFUL_BEGINNING:
		c->phase = CAREFUL_RECONNAISSANCE;
		c->limit = tp->snd_nxt;
		break;
	case CAREFUL_RECONNAISSANCE:
		careful_reconnoitre(sk, ss);
		break;
	case CAREFUL_UNVALIDATED:
		careful_send(sk, ss, acked);
		break;
	case CAREFUL_VALIDATING:
		if (!before(tp->snd_una, c->limit))
			careful_end(sk, ss);
		break;
	default:
		if (ca_state(sk) < TCP_CA_CWR)
			careful_return(sk, ss);
	}
}

/* A round of which the window was the limit shows what the path holds: what arrived in it, per round trip of its time. */
static inline void careful_observe(struct sock *sk, struct slow_start *ss)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct careful *c = &ss->careful;
	u32 rtt = max32(tp->srtt_us >> 3, 1), passed = slow_start_clock(sk) - ss->round_start, held;

	if (!path_memory(sk) || before(tp->snd_una, ss->round_end))
		return;
	held = (u32)((u64)(tp->delivered - c->delivered) * rtt / max32(passed, rtt));
	/* The end of the data is no measure. */
	if (c->phase == CAREFUL_OBSERVING && ca_state(sk) == TCP_CA_Open && window_was_the_limit(sk) &&
	    held >= CAREFUL_WORTH && tcp_packets_in_flight(tp) >= held / 2)
		path_save(sk, held, ss->rtt_min);
	c->phase = CAREFUL_OBSERVING;
	c->delivered = tp->delivered;
	slow_start_round(sk, ss);
}

/* A loss. `kept` is what the algorithm keeps of its window. Safe retreat: no more than half the pipe. */
static inline u32 careful_lose(struct sock *sk, struct slow_start *ss, u32 kept)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct careful *c = &ss->careful;

	if (c->phase != CAREFUL_UNVALIDATED && c->phase != CAREFUL_VALIDATING) {
		careful_end(sk, ss);
		return kept;
	}
	careful_unpace(sk, c);
	if (c->claims)
		path_forget(sk);
	c->claims = 0;
	c->phase = CAREFUL_RETREAT;
	c->pipe = careful_pipe(sk, c);
	c->delivered = tp->delivered;
	c->flight = tp->packets_out - tp->sacked_out;
	c->lost = tp->lost - tp->lost_out;
	return max32(min32(kept, c->pipe / 2), 2);
}

#endif
