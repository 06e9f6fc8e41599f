// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Planted: a window that doubles up to a bound and halves on a loss, and that hardly sends any more once a packet has timed out
 * twice in a row, as in an outage of seconds. Units: packets, bytes/s.
 */
#include "tcp.h"

#define MOST 64
#define CRAWL 50
#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)

struct stops {
	bool stopped;
};

CC_STATE(struct stops);

CC_CALLBACK(void, stops_init, struct sock *sk)
{
	struct stops *ca = inet_csk_ca(sk);

	ca->stopped = false;
	sk->sk_pacing_status = SK_PACING_NEEDED;
}

CC_CALLBACK(u32, stops_ssthresh, struct sock *sk)
{
	return max32(tcp_sk(sk)->snd_cwnd / 2, 2);
}

CC_CALLBACK(void, stops_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct stops *ca = inet_csk_ca(sk);

	if (ca->stopped)
		sk->sk_pacing_rate = CRAWL;
	else if (ca_state(sk) == TCP_CA_Open)
		tp->snd_cwnd = min32(tp->snd_cwnd + rs->acked_sacked, MOST);
}

CC_CALLBACK(void, stops_set_state, struct sock *sk, u8 new_state)
{
	struct stops *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Recovery || new_state == TCP_CA_Loss)
		tcp_sk(sk)->snd_cwnd = stops_ssthresh(sk);
	if (new_state == TCP_CA_Loss && inet_csk(sk)->icsk_retransmits > 0)
		ca->stopped = true;
}

CC_CALLBACK(u32, stops_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

CC_REGISTER(stops_outage, "Planted: stops after an outage", PARAMETERS,
	.init = OP(stops_init),
	.ssthresh = OP(stops_ssthresh),
	.set_state = OP(stops_set_state),
	.cong_control = OP(stops_cong_control),
	.undo_cwnd = OP(stops_undo_cwnd))
