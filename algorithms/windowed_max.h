/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The largest value of a sliding window, in constant space.
 *
 * Nichols' filter: the best of the whole window, of its later three quarters and of its later half. When the best
 * grows too old the next one takes its place. Time is any count that only grows (and may wrap): rounds, ms.
 */
#ifndef PERIGEE_WINDOWED_MAX_H
#define PERIGEE_WINDOWED_MAX_H

#include "tcp.h"

struct windowed_max_sample {
	u32 time;
	u32 value;
};

struct windowed_max {
	struct windowed_max_sample best, second, third;
};

static inline void windowed_max_add(struct windowed_max *m, u32 window, u32 time, u32 value)
{
	struct windowed_max_sample new = { time, value };
	u32 age;

	if (value >= m->best.value || time - m->third.time > window) {
		m->best = m->second = m->third = new;
		return;
	}
	if (value >= m->second.value)
		m->second = m->third = new;
	else if (value >= m->third.value)
		m->third = new;
	age = time - m->best.time;
	if (age > window) {
		m->best = m->second;
		m->second = m->third;
		m->third = new;
		if (time - m->best.time > window) {
			m->best = m->second;
			m->second = m->third;
		}
	} else if (m->second.time == m->best.time && age > window / 4) {
		m->second = m->third = new;
	} else if (m->third.time == m->second.time && age > window / 2) {
		m->third = new;
	}
}

#endif
