/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BBR version 3: the values that results may show, by the draft's names for them. Where it has none, the doc says so.
 */
#ifndef PERIGEE_BBR3_WATCHED_H
#define PERIGEE_BBR3_WATCHED_H

#include "bbr3/model.h"

/* packets/us to bit/s of payload. */
static inline u64 watched_bps(struct sock *sk, u64 bw)
{
	u64 rate = bw * tcp_sk(sk)->mss_cache, bits = 8 * USEC_PER_SEC;

	if (bw == NO_BOUND_BW)
		return CC_EMPTY;
	return rate < 1ULL << 40 ? rate * bits >> BW_SHIFT : (rate >> 16) * bits >> (BW_SHIFT - 16);
}

static inline u64 watched_bound(u32 packets)
{
	return packets >= NO_BOUND ? CC_EMPTY : packets;
}

static inline u64 watched_rtt(u32 rtt_us)
{
	return rtt_us == ~0U ? CC_EMPTY : rtt_us;
}

#define WATCHED_STATES "startup|drain|probe_bw_down|probe_bw_cruise|probe_bw_refill|probe_bw_up|probe_rtt"
#define WATCHED_PHASES "init|refilling|probe_starting|probe_feedback|probe_stopping"

#define WATCHED(W)                                                                                                      \
	W(state, WATCHED_STATES, b->state, "BBR.state")                                                                     \
	W(ack_phase, WATCHED_PHASES, b->ack_phase, "BBR.ack_phase: what the ACKs that arrive are about")                    \
	W(pacing_gain_percent, "percent", pacing_gain(b), "BBR.pacing_gain")                                                \
	W(cwnd_gain_percent, "percent", cwnd_gain(b), "BBR.cwnd_gain")                                                      \
	W(max_bw_bps, "bit/s", watched_bps(sk, max_bw(b)), "BBR.max_bw: the larger of two cycles")                          \
	W(bw_this_cycle_bps, "bit/s", watched_bps(sk, b->bw_this_cycle), "the cycle that goes on, of max_bw")               \
	W(bw_last_cycle_bps, "bit/s", watched_bps(sk, b->bw_last_cycle), "the cycle before it")                             \
	W(bw_bps, "bit/s", watched_bps(sk, model_bw(b)), "BBR.bw: max_bw within bw_shortterm")                              \
	W(bw_shortterm_bps, "bit/s", watched_bps(sk, b->bw_shortterm), "BBR.bw_shortterm; empty: no bound")                 \
	W(bw_latest_bps, "bit/s", watched_bps(sk, b->bw_latest), "BBR.bw_latest")                                           \
	W(inflight_longterm_packets, "packets", watched_bound(b->inflight_longterm), "BBR.inflight_longterm; empty: none")  \
	W(inflight_shortterm_packets, "packets", watched_bound(b->inflight_shortterm), "BBR.inflight_shortterm")            \
	W(inflight_latest_packets, "packets", b->inflight_latest, "BBR.inflight_latest")                                    \
	W(min_rtt_us, "us", watched_rtt(b->min_rtt_us), "BBR.min_rtt")                                                      \
	W(probe_rtt_min_delay_us, "us", watched_rtt(b->probe_rtt_min_us), "BBR.probe_rtt_min_delay")                        \
	W(extra_acked_packets, "packets", b->extra.best.value, "BBR.extra_acked: ACK aggregation")                          \
	W(round_count, "1", b->round, "BBR.round_count")                                                                    \
	W(round_start, "switch", b->round_start, "BBR.round_start: this ACK begins a round")                                \
	W(full_bw_bps, "bit/s", watched_bps(sk, b->full_bw), "BBR.full_bw: what a round has to exceed by a quarter")        \
	W(full_bw_count, "1", b->full_bw_count, "BBR.full_bw_count")                                                        \
	W(full_bw_now, "switch", b->full_bw_now, "BBR.full_bw_now")                                                         \
	W(full_bw_reached, "switch", b->full_bw_reached, "BBR.full_bw_reached")                                             \
	W(rounds_since_probe_up, "1", b->rounds_since_probe, "BBR.rounds_since_probe_up")                                   \
	W(bw_probe_up_rounds, "1", b->up_rounds, "BBR.bw_probe_up_rounds: doublings of the slope")                          \
	W(probe_up_acked_per_inc_packets, "packets", watched_bound(b->up_per_packet), "BBR.probe_up_acked_per_inc")         \
	W(bw_probe_wait_us, "us", b->probe_wait_us, "BBR.bw_probe_wait")                                                    \
	W(prior_cwnd_packets, "packets", b->prior_cwnd, "BBR.prior_cwnd")                                                   \
	W(idle_restart, "switch", b->idle_restart, "BBR.idle_restart")                                                      \
	W(is_bw_probe_sample, "switch", b->probe_samples, "BBR.is_bw_probe_sample: ACKs show what a probe did")             \
	W(prev_probe_too_high, "switch", b->probed_too_high, "BBR.prev_probe_too_high")                                     \
	W(prev_probe_precautionary, "switch", b->stopped_as_precaution, "BBR.prev_probe_precautionary")                     \
	W(undo_state, WATCHED_STATES, b->undo_state == NO_STATE ? CC_EMPTY : b->undo_state, "BBR.undo_state")               \
	W(undo_bw_shortterm_bps, "bit/s", watched_bps(sk, b->undo_bw_shortterm), "BBR.undo_bw_shortterm")                   \
	W(undo_inflight_shortterm_packets, "packets", watched_bound(b->undo_inflight_shortterm), "BBR.undo_inflight_shortterm") \
	W(undo_inflight_longterm_packets, "packets", watched_bound(b->undo_inflight_longterm), "BBR.undo_inflight_longterm") \
	W(is_loss_in_round, "switch", b->loss_in_round, "BBR.is_loss_in_round")                                             \
	W(loss_events, "1", b->loss_events, "ACKs that reported losses in this round of losses")
CC_WATCH(WATCHED, const struct bbr3 *b = cc_storage(sk));

#endif
