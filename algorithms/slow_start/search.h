/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SEARCH: slow start ends when less arrives than was sent a round trip before.
 *
 * Chung, Kachooei, Li, Claypool: draft-chung-ccwg-search-10 (2026). Time is cut into bins of 0.35 initial round trips. A
 * window has ten. What was acknowledged in the last window is compared with what was sent in the window that ended a
 * round trip earlier; both are equal while the path takes everything.
 *
 * Differences from the draft:
 *  - bins hold sequence numbers of 32 bits, without the shifts that make them fit 16
 *  - the window drains to what arrived in one initial round trip, at least ten packets, by two of three packets
 *    acknowledged: the pace of the authors' code for Linux (version 4.0), where what arrived is counted in whole bins
 *  - after more than a window without ACKs it begins anew, with a new initial round trip; the draft leaves that open
 *  - for the first slow start only, and a loss ends it
 */
#ifndef PERIGEE_SLOW_START_SEARCH_H
#define PERIGEE_SLOW_START_SEARCH_H

#include "slow_start/state.h"

/* Section 3: bins of a window, and those kept for the round trip before it. */
#define SEARCH_WINDOW 10
#define SEARCH_EXTRA 15
/* A window is 3.5 initial round trips, hence a bin 7/20 of one. */
#define SEARCH_BIN(rtt) ((u32)max64((u64)(rtt) * 7 / 20, 1))
/* Largest share of what was sent that may be missing, of 100. */
#define SEARCH_THRESHOLD 26
/* The window after the end is no smaller: the initial one (RFC 6928). */
#define SEARCH_LEAST 10U
/* Packets acknowledged per packet sent while the window drains. */
#define SEARCH_DRAIN 3

/* Bytes acknowledged from the bin of one number to that of another. */
static inline u32 search_acked(const struct search *s, u32 from, u32 to)
{
	return s->acked[to % SEARCH_ACKED] - s->acked[from % SEARCH_ACKED];
}

/* Bytes sent in the window that ends with this bin. */
static inline u32 search_sent(const struct search *s, u32 end)
{
	return s->sent[end % SEARCH_SENT] - s->sent[(end - SEARCH_WINDOW) % SEARCH_SENT];
}

static inline void search_note(struct sock *sk, struct search *s)
{
	s->acked[s->index % SEARCH_ACKED] = tcp_sk(sk)->snd_una;
	s->sent[s->index % SEARCH_SENT] = tcp_sk(sk)->snd_nxt;
}

static inline void search_begin(struct sock *sk, struct search *s, u32 delay)
{
	s->bin_us = SEARCH_BIN(delay);
	s->bin_end = slow_start_clock(sk) + s->bin_us;
	s->index = 0;
	search_note(sk, s);
}

/* Bins ended: those without ACKs hold what the last one held. Returns whether too many are missing. */
static inline bool search_advance(struct sock *sk, struct search *s)
{
	u32 passed = (slow_start_clock(sk) - s->bin_end) / s->bin_us + 1;
	u32 acked = s->acked[s->index % SEARCH_ACKED], sent = s->sent[s->index % SEARCH_SENT];

	if (passed > SEARCH_WINDOW)
		return true;
	for (u32 i = 1; i < SEARCH_WINDOW; i++) {
		if (i >= passed)
			break;
		s->acked[(s->index + i) % SEARCH_ACKED] = acked;
		s->sent[(s->index + i) % SEARCH_SENT] = sent;
	}
	s->index += passed;
	s->bin_end += passed * s->bin_us;
	search_note(sk, s);
	return false;
}

/* (sent - acked) / sent >= 0.26, where `sent` ends a round trip ago, between two bins. */
static inline bool search_finds_less(const struct search *s, u32 delay)
{
	u32 back = delay / s->bin_us, end = s->index - back;
	u64 part = delay % s->bin_us, sent, acked = search_acked(s, s->index - SEARCH_WINDOW, s->index);

	if (back >= SEARCH_EXTRA || s->index <= SEARCH_WINDOW + back)
		return false;
	sent = (search_sent(s, end - 1) * part + search_sent(s, end) * (s->bin_us - part)) / s->bin_us;
	return sent > acked && (sent - acked) * 100 >= sent * SEARCH_THRESHOLD;
}

/* Packets that arrived in the last initial round trip, which is 2 6/7 bins. */
static inline u32 search_arrived(struct sock *sk, const struct search *s)
{
	u32 whole = search_acked(s, s->index - 2, s->index), third = search_acked(s, s->index - 3, s->index - 2);

	return (u32)((whole + (u64)third * 6 / 7) / max32(tcp_sk(sk)->mss_cache, 1));
}

/* One packet leaves per three acknowledged, until the window is the target. */
static inline void search_drain(struct sock *sk, struct slow_start *ss)
{
	struct search *s = &ss->search;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 credit = s->credit + (tp->delivered - s->delivered);
	u32 cwnd = max32(tcp_packets_in_flight(tp) + credit / SEARCH_DRAIN, s->target);

	s->delivered = tp->delivered;
	s->credit = credit % SEARCH_DRAIN;
	tp->snd_cwnd = min32(tp->snd_cwnd, cwnd);
	if (tp->snd_cwnd <= s->target)
		slow_start_end(sk, ss);
}

static inline void search(struct sock *sk, struct slow_start *ss, u32 delay)
{
	struct search *s = &ss->search;

	if (s->target) {
		search_drain(sk, ss);
		return;
	}
	if (s->bin_us == 0) {
		search_begin(sk, s, delay);
		return;
	}
	if (!before(s->bin_end, slow_start_clock(sk)))
		return;
	if (search_advance(sk, s)) {
		search_begin(sk, s, delay);
		return;
	}
	if (!search_finds_less(s, delay))
		return;
	s->target = max32(search_arrived(sk, s), SEARCH_LEAST);
	s->delivered = tcp_sk(sk)->delivered;
}

#endif
