/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BBR version 3: wrong variants, on purpose, of which a test suite has to notice each (validation/bbr3).
 *
 * A build with -DBBR3_MUTANT=MUTANT_x has the variant x; without it, the code is as the draft says.
 */
#ifndef PERIGEE_BBR3_MUTANTS_H
#define PERIGEE_BBR3_MUTANTS_H

enum {
	MUTANT_NONE,
	MUTANT_DRAIN_OF_BBR1,     /* gain of DRAIN 0.35 */
	MUTANT_DOWN_91,           /* gain of PROBE_DOWN 0.91 */
	MUTANT_UP_WINDOW,         /* no 0.25 more of the window in PROBE_UP */
	MUTANT_NO_MARGIN,         /* paces at the model's rate, not 1 % below */
	MUTANT_NO_HEADROOM,       /* cruises at inflight_longterm */
	MUTANT_FILTER_1,          /* max_bw of one cycle */
	MUTANT_FILTER_3,          /* of three */
	MUTANT_SHORTTERM_STAYS,   /* PROBE_REFILL forgets no short-term bound */
	MUTANT_IDLE_STAYS,        /* idle_restart is never cleared */
	MUTANT_PROBE_RTT_TO_UP,   /* PROBE_RTT is followed by PROBE_UP */
	MUTANT_LIMITED_LOWERS,    /* a loss lowers inflight_longterm of a sender short of data, too */
	MUTANT_UNDO_MINIMA,       /* a spurious loss restores the smaller bounds */
	MUTANT_LOSS_EVENTS,       /* losses count by ACK, not by packet */
	MUTANT_RENO_BYTES,        /* the wait of Reno's rounds in bytes */
	MUTANT_FIRST_DISCARDED,   /* samples of the first flight are not taken */
};

#ifndef BBR3_MUTANT
#define BBR3_MUTANT MUTANT_NONE
#endif
#define IS_MUTANT(name) (BBR3_MUTANT == MUTANT_##name)
#define UNLESS_MUTANT(name, right, wrong) (IS_MUTANT(name) ? (wrong) : (right))

#endif
