/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Parameters of slow start: part of a PARAMETERS list, before slow_start.h. `fallback` is the algorithm's own choice. */
#ifndef PERIGEE_SLOW_START_PARAMETERS_H
#define PERIGEE_SLOW_START_PARAMETERS_H

/* The order of the names in the unit. */
enum { SLOW_START_CLASSIC, SLOW_START_HYSTART, SLOW_START_HYSTART_PLUS, SLOW_START_SEARCH, SLOW_START_RAPID,
	   SLOW_START_CAREFUL, SLOW_START_LIMITED };

#define SLOW_START_PARAMETERS(P, fallback)                                                                              \
	P(slow_start, "classic|hystart|hystart++|search|rapid|careful|limited", fallback, 0, SLOW_START_LIMITED,            \
	  "how slow start grows and when it ends before a loss")                                                            \
	P(saved_window, "packets", 0, 0, 1000000, "careful: window that an earlier connection used; 0: none")               \
	P(saved_rtt, "us", 0, 0, 60000000, "careful: least round trip of that connection")                                  \
	P(saved_age, "us", 0, 0, 604800000000, "careful: time since that connection")                                       \
	P(lifetime, "us", 600000000, 0, 604800000000, "careful: greatest age at which it still counts")                    \
	P(max_ssthresh, "packets", 100, 2, 1000000, "limited: window from which on it grows by half as much per round trip")

#endif
