// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Compound: Reno's window, and a second one that fills large paths as long as no queue builds up.
 *
 * Tan, Song, Zhang, Sridharan: "A Compound TCP Approach for High-speed and Long Distance Networks", Infocom 2006;
 * draft-sridharan-tcpm-ctcp-02 (2008), which the names and numbers are from.
 *
 *   W = cwnd + dwnd;   cwnd: one packet per round trip, halved on a loss;   dwnd, once per round trip:
 *   dwnd += (alpha W^k - 1)+     diff < gamma       diff = W (RTT - baseRTT) / RTT: packets of ours in the queue
 *   dwnd -= zeta diff            otherwise
 *   dwnd  = (W (1 - beta) - cwnd / 2)+  on a loss
 *   gamma = (1 - lambda) gamma + lambda 3/4 diff of cwnd alone, on a loss, within 5 and 30: `tuning`
 *
 * Differences from the draft:
 *  - the host's window is W; cwnd is what dwnd leaves of it
 *  - RTT is the mean of a round trip's samples, of which there are three at least
 *  - dwnd is zero in slow start, grows only where the window was the limit, and keeps its fraction of a packet
 *  - lambda is from an implementation, since the draft's text was not at hand: 0.8
 * `form` = "module": the module for Linux that TCP-Linux of ns-2 hosts. RTT is the least of a round, so that jitter is no
 * queue; a loss leaves half of W as cwnd and a dwnd of zero; dwnd grows and gives way in slow start too, and giving way leaves
 * the threshold, so that a slow start follows. Linux itself has no Compound.
 *
 * Units: windows in packets, times in us.
 */
#include "tcp.h"
#include "fixed_point.h"

enum { FORM_DRAFT, FORM_MODULE };

#define PARAMETERS(P)                                                                                                   \
	P(alpha, "1/1024", 128, 1, 1024, "growth of dwnd per round trip: alpha W^k")                                        \
	P(beta, "1/1024", 512, 1, 1023, "share of the window that a loss takes")                                            \
	P(k, "1/1000", 750, 100, 1000, "exponent of the growth")                                                            \
	P(gamma, "packets", 30, 1, 1000000, "packets of ours in the queue from which on dwnd gives way")                    \
	P(zeta, "1/1024", 1024, 1, 4096, "how fast it gives way")                                                           \
	P(tuning, "switch", 0, 0, 1, "gamma follows what Reno's window has in the queue when a loss comes")                 \
	P(lambda, "1/1024", 819, 1, 1024, "weight of the newest such sample")                                               \
	P(gamma_least, "packets", 5, 1, 1000000, "smallest gamma of the tuning; the largest is gamma")                      \
	P(low_window, "packets", 41, 2, 1000000, "smallest window at which dwnd grows")                                     \
	P(form, "draft|module", FORM_DRAFT, 0, FORM_MODULE, "as the draft, or as the module of TCP-Linux")
CC_PARAMETERS(PARAMETERS)

#define SHARE_SHIFT 10
#define SHARE_ONE (1U << SHARE_SHIFT)
#define SAMPLES_MIN 3

struct compound {
	u64 sum_rtt;     /* us, of this round */
	u32 least_rtt;   /* us, of this round */
	u32 samples;
	u32 round_end;   /* sequence number */
	u32 base_rtt;    /* us; 0: none */
	u32 dwnd;
	u32 prior_dwnd;  /* before the last loss */
	u32 fraction;    /* of a packet of dwnd, << 10 */
	u32 gamma;       /* << 10 */
	u32 reno_backlog; /* diff of cwnd alone, << 10 */
	bool backlog_known;
};
CC_STATE(struct compound);

static void start_round(struct sock *sk, struct compound *c)
{
	c->sum_rtt = 0;
	c->least_rtt = ~0U;
	c->samples = 0;
	c->round_end = tcp_sk(sk)->snd_nxt;
}

static void forget(struct sock *sk, struct compound *c)
{
	*c = (struct compound){ .gamma = (u32)param(sk, gamma) << SHARE_SHIFT };
	start_round(sk, c);
}

CC_CALLBACK(void, compound_init, struct sock *sk)
{
	forget(sk, inet_csk_ca(sk));
}

CC_CALLBACK(void, compound_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct compound *c = inet_csk_ca(sk);
	s32 rtt_us = sample->rtt_us;

	if (rtt_us <= 0)
		return;
	if (c->base_rtt == 0 || (u32)rtt_us < c->base_rtt)
		c->base_rtt = (u32)rtt_us;
	c->sum_rtt += (u32)rtt_us;
	c->least_rtt = min32(c->least_rtt, (u32)rtt_us);
	c->samples++;
}

/* diff = (W / baseRTT - W / RTT) baseRTT, << 10. */
static u64 backlog(const struct compound *c, u64 window, u64 rtt)
{
	return (window * (rtt - min64(c->base_rtt, rtt)) << SHARE_SHIFT) / max64(rtt, 1);
}

/* alpha W^k - 1, << 10, where that is growth. */
static u64 growth(struct sock *sk, u32 window)
{
	u64 grown = param(sk, alpha) * power_fixed((u64)window << SHARE_SHIFT, (u32)param(sk, k), SHARE_SHIFT);

	return max64(grown >> SHARE_SHIFT, SHARE_ONE) - SHARE_ONE;
}

/* A round trip is over: dwnd grows where there is no queue of ours, and gives way where there is. */
static void end_round(struct sock *sk, struct compound *c)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = tp->snd_cwnd, give;
	bool module = param(sk, form) == FORM_MODULE;
	u64 rtt = module ? c->least_rtt : c->sum_rtt / max32(c->samples, 1), diff = backlog(c, window, rtt), grow;

	c->reno_backlog = (u32)min64(backlog(c, window - min32(c->dwnd, window), rtt), ~0U);
	c->backlog_known = true;
	if (diff < c->gamma) {
		if (window < (u32)param(sk, low_window))
			return;
		grow = growth(sk, window) + c->fraction;
		c->fraction = (u32)grow % SHARE_ONE;
		give = (u32)min64(grow >> SHARE_SHIFT, tp->snd_cwnd_clamp - min32(window, tp->snd_cwnd_clamp));
		c->dwnd += give;
		tp->snd_cwnd = window + give;
	} else {
		give = (u32)min64(param(sk, zeta) * (diff >> SHARE_SHIFT) >> SHARE_SHIFT, c->dwnd);
		give = min32(give, window - min32(window, 2));
		c->fraction = 0;
		c->dwnd -= give;
		tp->snd_cwnd = window - give;
		/* Giving way is no reason for a slow start. */
		if (!module)
			tp->snd_ssthresh = min32(tp->snd_ssthresh, tp->snd_cwnd);
	}
}

CC_CALLBACK(void, compound_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct compound *c = inet_csk_ca(sk);
	bool round_over = !before(tp->snd_una, c->round_end), limited = tcp_is_cwnd_limited(sk);
	bool starting = tcp_in_slow_start(tp), module = param(sk, form) == FORM_MODULE;

	if (limited && starting) {
		if (!module)
			c->dwnd = c->fraction = 0;
		acked = tcp_slow_start(tp, acked);
	}
	if (limited && (module || !starting) && round_over && c->samples >= SAMPLES_MIN)
		end_round(sk, c);
	if (limited && acked)
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
	if (round_over)
		start_round(sk, c);
}

/* gamma = (1 - lambda) gamma + lambda 3/4 diff */
static void tune(struct sock *sk, struct compound *c)
{
	u64 lambda = param(sk, lambda), sample = (u64)c->reno_backlog * 3 / 4;
	u64 most = param(sk, gamma) << SHARE_SHIFT, least = min64(param(sk, gamma_least) << SHARE_SHIFT, most);

	c->gamma = (u32)min64(max64(((u64)c->gamma * (SHARE_ONE - lambda) + sample * lambda) >> SHARE_SHIFT, least), most);
	c->backlog_known = false;
}

CC_CALLBACK(u32, compound_ssthresh, struct sock *sk)
{
	struct compound *c = inet_csk_ca(sk);
	u32 window = tcp_sk(sk)->snd_cwnd, reno, kept;

	c->dwnd = min32(c->dwnd, window);
	c->prior_dwnd = c->dwnd;
	reno = (window - c->dwnd) / 2;
	kept = (u32)((u64)window * (SHARE_ONE - param(sk, beta)) >> SHARE_SHIFT);
	if (param(sk, form) == FORM_MODULE)
		reno = kept;
	c->dwnd = kept - min32(reno, kept);
	c->fraction = 0;
	if (param(sk, tuning) && c->backlog_known)
		tune(sk, c);
	return max32(reno + c->dwnd, 2);
}

/* After a timeout nothing is known of the path. */
CC_CALLBACK(void, compound_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		forget(sk, inet_csk_ca(sk));
}

CC_CALLBACK(u32, compound_undo_cwnd, struct sock *sk)
{
	struct compound *c = inet_csk_ca(sk);

	c->dwnd = max32(c->dwnd, c->prior_dwnd);
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(compound, "Compound TCP, Tan et al. 2006", PARAMETERS,
	.init = OP(compound_init),
	.ssthresh = OP(compound_ssthresh),
	.cong_avoid = OP(compound_cong_avoid),
	.set_state = OP(compound_set_state),
	.pkts_acked = OP(compound_pkts_acked),
	.undo_cwnd = OP(compound_undo_cwnd))
