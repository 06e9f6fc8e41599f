/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Powers and signed quotients without floating point or signed division (BPF has neither).
 *
 * Scales: logarithms << 16. crates/perigee-cc tests them against floats.
 */
#ifndef PERIGEE_FIXED_POINT_H
#define PERIGEE_FIXED_POINT_H

#include "tcp.h"

#define LOG_SHIFT 16
#define LOG_ONE (1U << LOG_SHIFT)

/* floor(log2(x) << 16) for x > 0, bit by bit: squaring the mantissa doubles its logarithm. */
CC_FUNCTION u32 log2_fixed(u64 x)
{
	u32 whole = 0, fraction = 0;
	u64 mantissa;

	for (u32 step = 32; step > 0; step /= 2)
		if (x >> (whole + step) != 0)
			whole += step;
	/* In [1, 2) << 31. */
	mantissa = whole > 31 ? x >> (whole - 31) : x << (31 - whole);
	for (int i = 0; i < LOG_SHIFT; i++) {
		mantissa = mantissa * mantissa >> 31;
		fraction = fraction << 1 | (u32)(mantissa >> 32);
		mantissa >>= mantissa >> 32;
	}
	return whole << LOG_SHIFT | fraction;
}

/* 2^(1/2), 2^(1/4), ... << 30. */
CC_TABLE u32 roots_of_two[LOG_SHIFT] = {
	1518500250, 1276901417, 1170923762, 1121280436, 1097253708, 1085434106, 1079572136, 1076653033,
	1075196443, 1074468888, 1074105294, 1073923544, 1073832680, 1073787251, 1073764537, 1073753181,
};

/* 2^(y / 2^16) for y < 60 << 16: one factor per bit of the fraction, and one of 1 where the bit is zero. */
CC_FUNCTION u64 exp2_fixed(u32 y)
{
	u32 whole = min32(y >> LOG_SHIFT, 60);
	u64 one = 1ULL << 30, product = one;

	for (int i = 0; i < LOG_SHIFT; i++) {
		u64 bit = y >> (LOG_SHIFT - 1 - i) & 1;

		product = product * (one + bit * (roots_of_two[i] - one)) >> 30;
	}
	return whole >= 30 ? product << (whole - 30) : product >> (30 - whole);
}

/* x^(exponent / 1000), both << shift; exponent is at most 1000. */
CC_FUNCTION u64 power_fixed(u64 x, u32 exponent, u32 shift)
{
	u32 unit = shift << LOG_SHIFT, log = x ? log2_fixed(x) : 0;

	if (x == 0)
		return 0;
	/* log2 of the number is log - unit; it may be negative, its part of the exponent is not taken then. */
	if (log >= unit)
		return exp2_fixed((u32)((u64)(log - unit) * exponent / 1000) + unit);
	return exp2_fixed(unit - (u32)((u64)(unit - log) * exponent / 1000));
}

static inline u64 magnitude(s64 x)
{
	return x < 0 ? 0 - (u64)x : (u64)x;
}

/* a / b, rounded towards zero; zero where b is. */
CC_FUNCTION s64 divide(s64 a, s64 b)
{
	u64 quotient = b ? magnitude(a) / magnitude(b) : 0;

	return (a < 0) == (b < 0) ? (s64)quotient : -(s64)quotient;
}

#endif
