/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Parameters of slow start: part of a PARAMETERS list, before slow_start.h. `fallback` is the algorithm's own choice. */
#ifndef PERIGEE_SLOW_START_PARAMETERS_H
#define PERIGEE_SLOW_START_PARAMETERS_H

/* The order of the names in the unit. */
enum { SLOW_START_CLASSIC, SLOW_START_HYSTART, SLOW_START_HYSTART_PLUS, SLOW_START_SEARCH, SLOW_START_RAPID };

#define SLOW_START_PARAMETERS(P, fallback)                                                                              \
	P(slow_start, "classic|hystart|hystart++|search|rapid", fallback, 0, SLOW_START_RAPID,                              \
	  "how slow start grows and when it ends before a loss")

#endif
