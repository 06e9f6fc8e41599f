/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Parameters of CUBIC's growth and of its slow start: part of a PARAMETERS list, before growth.h. */
#ifndef PERIGEE_CUBIC_PARAMETERS_H
#define PERIGEE_CUBIC_PARAMETERS_H

#include "slow_start/parameters.h"

#define HYSTART_ACK_TRAIN(sk) param(sk, ack_train)
#define HYSTART_DELAY(sk) param(sk, delay)
#define HYSTART_LOW_WINDOW(sk) ((u32)param(sk, low_window))

#define CUBIC_PARAMETERS(P)                                                                                             \
	P(fast_convergence, "switch", 1, 0, 1, "release bandwidth when the maximum shrinks")                                \
	P(tcp_friendliness, "switch", 1, 0, 1, "never slower than Reno would be")                                           \
	SLOW_START_PARAMETERS(P, SLOW_START_HYSTART)                                                                        \
	P(ack_train, "switch", 1, 0, 1, "HyStart: exit when a train of ACKs is as long as half the round trip")             \
	P(delay, "switch", 1, 0, 1, "HyStart: exit when the round trip has grown")                                          \
	P(low_window, "packets", 16, 2, 1000000, "HyStart: smallest window to leave slow start at")

#endif
