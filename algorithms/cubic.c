// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * CUBIC: the window is a cubic function of the time since the last reduction.
 *
 * RFC 9438 (2023), "CUBIC for Fast and Long-Distance Networks"; Ha, Rhee, Xu: "CUBIC: A New TCP-Friendly High-Speed TCP
 * Variant", 2008. Slow start ends by HyStart: Ha, Rhee: "Taming the elephants: New TCP slow start", 2011.
 *
 * Differences from the RFC (as Linux 6.x):
 *  - the RTT in W_cubic(t + RTT) is the least one, not the smoothed one; round trips within a second of an epoch's
 *    beginning do not count for it (4.2)
 *  - the window grows by (target - cwnd) / cwnd per packet acknowledged, not per ACK (4.4, 4.5); by 5 % per RTT at least
 *    while no loss has shown where the maximum lies
 *  - the friendly window grows by 3 (1 - beta) / (1 + beta) at any size, also beyond the window of the last reduction (4.3)
 *  - W_cubic is recomputed when the window changed or 1/32 s passed, at most once per ms
 *  - beta reduces the window, not the flight size, and an ECN mark leaves no less than two packets either (4.6)
 *  - an undone reduction restores the window and the threshold, not the epoch and the maximum (4.9)
 *  - slow start ends by HyStart unless `slow_start` says otherwise; HyStart++ (4.10) is one of the choices
 *  - only idle time is taken out of t, not time in which the application limits the window (5.8)
 * Cubic of 2005 (Rhee, Xu: "CUBIC: A New TCP-Friendly High-Speed TCP Variant", PFLDnet 2005), as in Linux 2.6.20 and
 * 2.6.22: `beta` 819/1024, `slow_start` classic, `growth_limit` 160 packets (16 per 0.1 s), `first_growth` 2 %, in 2.6.20
 * `initial_ssthresh` 100.
 * Differences from Linux:
 *  - the cube root is exact (Linux: a table and one Newton step, 0.2 % off on average); its clock ticks at 1 kHz
 *  - |t - K| saturates at 256 s, where Linux overflows a little later
 *
 * Units: windows in packets; `epoch_start`, `last_time` in ms; `K` in 1/1024 s.
 */
#include "tcp.h"
#include "cubic/parameters.h"
#include "slow_start/state.h"

#define PARAMETERS(P)                                                                                                   \
	P(beta, "1/1024", 717, 512, 1023, "window kept on a loss")                                                          \
	CUBIC_PARAMETERS(P)                                                                                                 \
	P(growth_limit, "packets", 0, 0, 1000000, "most growth per second beyond the plateau; 0: no limit")                 \
	P(first_growth, "1/1000", 50, 1, 500, "least growth per round trip while no loss has shown the maximum")            \
	P(initial_ssthresh, "packets", 0, 0, 1000000000, "first slow start threshold; 0: none")
CC_PARAMETERS(PARAMETERS)

#define CUBIC_GROWTH_LIMIT(sk) ((u32)param(sk, growth_limit))
#define CUBIC_FIRST_GROWTH(sk) ((u32)param(sk, first_growth))

CC_STORAGE(struct slow_start)
#include "cubic/growth.h"

CC_STATE(struct cubic);

CC_CALLBACK(void, cubic_init, struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 threshold = (u32)param(sk, initial_ssthresh);

	*ca = (struct cubic){ 0 };
	slow_start_init(sk);
	if (threshold)
		tcp_sk(sk)->snd_ssthresh = max32(threshold, 2);
}

CC_CALLBACK(void, cubic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	cubic_grow(sk, inet_csk_ca(sk), acked, (u32)param(sk, beta));
}

CC_CALLBACK(u32, cubic_ssthresh, struct sock *sk)
{
	return cubic_reduce(sk, inet_csk_ca(sk), (u32)param(sk, beta));
}

CC_CALLBACK(void, cubic_set_state, struct sock *sk, u8 new_state)
{
	struct cubic *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	*ca = (struct cubic){ 0 };
	slow_start_timeout(sk);
}

CC_CALLBACK(void, cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	cubic_idle(sk, inet_csk_ca(sk), event);
}

CC_CALLBACK(void, cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubic_sample(sk, inet_csk_ca(sk), sample);
}

CC_CALLBACK(u32, cubic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(cubic, "CUBIC with HyStart, RFC 9438", PARAMETERS,
	.init = OP(cubic_init),
	.ssthresh = OP(cubic_ssthresh),
	.cong_avoid = OP(cubic_cong_avoid),
	.set_state = OP(cubic_set_state),
	.cwnd_event = OP(cubic_cwnd_event),
	.pkts_acked = OP(cubic_pkts_acked),
	.undo_cwnd = OP(cubic_undo_cwnd))
