/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What slow start remembers of a connection: the first part of the socket's storage. Units: times in us. */
#ifndef PERIGEE_SLOW_START_STATE_H
#define PERIGEE_SLOW_START_STATE_H

#include "tcp.h"

/* Growth per packet acknowledged, in quarters of a packet: tcp_slow_start() is four of them. */
#define GAIN_ONE 4U

/* Rings of search.h: powers of two above its 11 and 26 bins. */
#define SEARCH_ACKED 16
#define SEARCH_SENT 32

/* SEARCH: sequence numbers at the end of each bin. */
struct search {
	u32 bin_us;  /* length of a bin; 0: none yet */
	u32 bin_end;
	u32 index;   /* bins so far; the newest is at `index` modulo the size of each ring */
	u32 acked[SEARCH_ACKED];
	u32 sent[SEARCH_SENT];
	u32 target;    /* packets to drain to; 0: not found yet */
	u32 delivered; /* of the socket, at the last ACK of the drain */
	u32 credit;    /* packets acknowledged in it that no packet replaced */
};

/* Rapid Start: the first recovery. Packets. */
struct rapid {
	u32 cwnd;      /* window before it; 0: not in it */
	u32 kept;      /* the window that the algorithm itself keeps */
	u32 flight;    /* in flight when it began */
	u32 delivered; /* of the socket, then */
	u32 lost;      /* of the socket, before the first loss */
};

/* Careful Resume. Packets, but for sequence numbers and the clock. Once it is over: `phase` and `delivered` of the round. */
struct careful {
	u32 phase;
	u32 limit;     /* sequence number: end of the initial data, later first, then last unvalidated packet */
	u32 start;     /* of the unvalidated phase */
	u32 pipe;      /* what the path is known to hold, when counting began */
	u32 delivered; /* of the socket, then */
	u32 ssthresh;  /* before the jump */
	u32 flight;    /* in flight when the retreat began */
	u32 lost;      /* of the socket, before the first loss */
	u8 paced;      /* by this alone */
	u8 claims;     /* what the path's memory has */
};

struct slow_start {
	/* The round at hand: */
	u32 round_start;
	u32 round_end;   /* sequence number */
	u32 round_rtt;   /* least of the round; all ones: none */
	u32 last_rtt;    /* that of the round before */
	u32 rtt_min;     /* least of all; 0: none */
	u32 last_ack;    /* HyStart: last ACK of the train */
	u32 base_rtt;    /* HyStart++: least round trip of the round that began conservative slow start; 0: not in it */
	u32 rounds;      /* HyStart++: conservative rounds that remain */
	u32 credit;      /* quarters of packets not yet grown by */
	u8 samples;      /* round trips of the round, as far as they count */
	u8 over;         /* the variant has nothing more to say; growth is classic */
	union {
		struct search search;
		struct rapid rapid;
		struct careful careful;
	};
};

static inline u32 slow_start_clock(struct sock *sk)
{
	return (u32)tcp_sk(sk)->tcp_mstamp;
}

static inline void slow_start_round(struct sock *sk, struct slow_start *ss)
{
	ss->round_start = ss->last_ack = slow_start_clock(sk);
	ss->round_end = tcp_sk(sk)->snd_nxt;
	ss->last_rtt = ss->round_rtt;
	ss->round_rtt = ~0U;
	ss->samples = 0;
}

/* A threshold for a round trip that has grown: an eighth of it, within 4 and 16 ms (Ha, Rhee 2011; RFC 9406, 4.3). */
static inline u32 slow_start_eta(u32 rtt)
{
	return clamp32(rtt / 8, 4000U, 16000U);
}

/* Slow start ends at the window that there is. */
static inline void slow_start_end(struct sock *sk, struct slow_start *ss)
{
	ss->over = 1;
	tcp_sk(sk)->snd_ssthresh = tcp_sk(sk)->snd_cwnd;
}

#endif
