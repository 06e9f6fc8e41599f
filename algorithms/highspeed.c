// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * HighSpeed: large windows grow faster and shrink less.
 *
 * RFC 3649 (2003), "HighSpeed TCP for Large Congestion Windows".
 *
 *   avoidance: W += a(W) / W per ACK;   loss: W -= b(W) W;   up to 38 packets a = 1, b = 1/2, as Reno
 *
 * Differences from the RFC (as Linux):
 *  - between two rows of the RFC's table a and b are those of the larger window; its last row (94717) is not there
 *  - one increment per ACK, whatever number of packets it covers; slow start counts packets
 *  - b belongs to the window of the last increment, not to one that slow start or a recovery reached since
 *  - limited slow start (RFC 3742) where `slow_start` says so
 * Difference from Linux: windows do not end at 2^25 packets; the product with b has 64 bits.
 *
 * Units: packets; b in 1/256.
 */
#include "tcp.h"
#include "slow_start/parameters.h"

#define PARAMETERS(P) SLOW_START_PARAMETERS(P, SLOW_START_CLASSIC)
CC_PARAMETERS(PARAMETERS)

#include "slow_start/state.h"

CC_STORAGE(struct slow_start)
#include "slow_start/slow_start.h"

struct row {
	u32 window; /* largest window of this row */
	u32 b;      /* share given up on a loss, << 8 */
};

/* RFC 3649, appendix B: the row number, counted from one, is a(W). */
CC_TABLE struct row rows[] = {
	{ 38, 128 }, { 118, 112 }, { 221, 104 }, { 347, 98 }, { 495, 93 }, { 663, 89 }, { 851, 86 }, { 1058, 83 },
	{ 1284, 81 }, { 1529, 78 }, { 1793, 76 }, { 2076, 74 }, { 2378, 72 }, { 2699, 71 }, { 3039, 69 }, { 3399, 68 },
	{ 3778, 66 }, { 4177, 65 }, { 4596, 64 }, { 5036, 62 }, { 5497, 61 }, { 5979, 60 }, { 6483, 59 }, { 7009, 58 },
	{ 7558, 57 }, { 8130, 56 }, { 8726, 55 }, { 9346, 54 }, { 9991, 53 }, { 10661, 52 }, { 11358, 52 }, { 12082, 51 },
	{ 12834, 50 }, { 13614, 49 }, { 14424, 48 }, { 15265, 48 }, { 16137, 47 }, { 17042, 46 }, { 17981, 45 }, { 18955, 45 },
	{ 19965, 44 }, { 21013, 43 }, { 22101, 43 }, { 23230, 42 }, { 24402, 41 }, { 25618, 41 }, { 26881, 40 }, { 28193, 39 },
	{ 29557, 39 }, { 30975, 38 }, { 32450, 38 }, { 33986, 37 }, { 35586, 36 }, { 37253, 36 }, { 38992, 35 }, { 40808, 35 },
	{ 42707, 34 }, { 44694, 33 }, { 46776, 33 }, { 48961, 32 }, { 51258, 32 }, { 53677, 31 }, { 56230, 30 }, { 58932, 30 },
	{ 61799, 29 }, { 64851, 28 }, { 68113, 28 }, { 71617, 27 }, { 75401, 26 }, { 79517, 26 }, { 84035, 25 }, { 89053, 24 },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

struct highspeed {
	u32 row;
};
CC_STATE(struct highspeed);

/* The first row that covers the window, by bisection; the last one covers all that are larger. */
CC_FUNCTION u32 find_row(u32 cwnd)
{
	u32 row = 0;

	for (u32 step = 64; step > 0; step /= 2) {
		u32 next = row + step;

		if (next < ROWS && rows[next - 1].window < cwnd)
			row = next;
	}
	return row;
}

CC_CALLBACK(void, highspeed_init, struct sock *sk)
{
	struct highspeed *ca = inet_csk_ca(sk);

	ca->row = 0;
	slow_start_init(sk);
}

CC_CALLBACK(void, highspeed_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *ca = inet_csk_ca(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		slow_start_grow(sk, acked);
		return;
	}
	ca->row = find_row(tp->snd_cwnd);
	if (tp->snd_cwnd >= tp->snd_cwnd_clamp)
		return;
	tp->snd_cwnd_cnt += ca->row + 1;
	if (tp->snd_cwnd_cnt >= tp->snd_cwnd) {
		tp->snd_cwnd_cnt -= tp->snd_cwnd;
		tp->snd_cwnd++;
	}
}

CC_CALLBACK(u32, highspeed_ssthresh, struct sock *sk)
{
	struct highspeed *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd, row = ca->row < ROWS ? ca->row : 0;

	return slow_start_reduce(sk, max32(cwnd - (u32)((u64)cwnd * rows[row].b >> 8), 2));
}

CC_CALLBACK(void, highspeed_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		slow_start_timeout(sk);
}

CC_CALLBACK(void, highspeed_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	slow_start_acked(sk, sample);
}

CC_CALLBACK(u32, highspeed_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(highspeed, "HighSpeed, RFC 3649", PARAMETERS,
	.init = OP(highspeed_init),
	.ssthresh = OP(highspeed_ssthresh),
	.cong_avoid = OP(highspeed_cong_avoid),
	.set_state = OP(highspeed_set_state),
	.pkts_acked = OP(highspeed_pkts_acked),
	.undo_cwnd = OP(highspeed_undo_cwnd))
