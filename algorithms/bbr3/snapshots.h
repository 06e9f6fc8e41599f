/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BBR version 3: what was in flight and what was lost when a packet left.
 *
 * The draft stamps each packet on departure with both. Linux stamps it with `delivered` alone, and gives that back as
 * `prior_delivered`. The value was current from one ACK to the next, so a ring of snapshots, one per ACK, has the rest. Long
 * windows have a snapshot per 1/48 of the window, so that the ring outlasts each. What left since the snapshot counts by its sequence number.
 */
#ifndef PERIGEE_BBR3_SNAPSHOTS_H
#define PERIGEE_BBR3_SNAPSHOTS_H

#include "tcp.h"

#define SNAPSHOTS 64
#define SNAPSHOTS_PER_WINDOW 48

struct snapshot {
	u32 delivered;
	u32 lost;
	u32 snd_nxt;
	u32 in_flight;
};

struct snapshots {
	struct snapshot ring[SNAPSHOTS];
	u32 newest;
	u32 count;
};

/* The snapshot that has `age` newer ones. */
static struct snapshot *snapshot_at(struct snapshots *s, u32 age)
{
	return &s->ring[(s->newest - age) & (SNAPSHOTS - 1)];
}

static void take_snapshot(struct sock *sk, struct snapshots *s)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 least = tp->snd_cwnd / SNAPSHOTS_PER_WINDOW + 1;

	if (s->count && tp->delivered - snapshot_at(s, 0)->delivered < least)
		return;
	s->newest++;
	s->count = min32(s->count + 1, SNAPSHOTS);
	*snapshot_at(s, 0) = (struct snapshot){
		.delivered = tp->delivered,
		.lost = tp->lost,
		.snd_nxt = tp->snd_nxt,
		.in_flight = tcp_packets_in_flight(tp),
	};
}

/* The newest snapshot that was there when `delivered` was current; the oldest if all are newer. */
static struct snapshot *find_snapshot(struct snapshots *s, u32 delivered)
{
	u32 newer = 0;

	for (u32 step = SNAPSHOTS / 2; step > 0; step /= 2)
		if (newer + step <= s->count && before(delivered, snapshot_at(s, newer + step - 1)->delivered))
			newer += step;
	return snapshot_at(s, min32(newer, max32(s->count, 1) - 1));
}

/* Packets in flight when the packet left whose last byte is `end`, itself among them. */
static u32 in_flight_at(struct sock *sk, const struct snapshot *then, u32 delivered, u32 end)
{
	u32 mss = max32(tcp_sk(sk)->mss_cache, 1), gone = before(then->delivered, delivered) ? delivered - then->delivered : 0;
	u32 left = before(then->snd_nxt, end) ? (end - then->snd_nxt + mss - 1) / mss : 0;

	return max32(then->in_flight + left, gone + 1) - gone;
}

#endif
