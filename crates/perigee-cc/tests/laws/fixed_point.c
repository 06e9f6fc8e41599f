// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Exports the functions of algorithms/fixed_point.h to the tests. */
#include "fixed_point.h"

u32 perigee_log2_fixed(u64 x);
u64 perigee_exp2_fixed(u32 y);
u64 perigee_power_fixed(u64 x, u32 exponent, u32 shift);
s64 perigee_divide(s64 a, s64 b);

u32 perigee_log2_fixed(u64 x)
{
	return log2_fixed(x);
}
u64 perigee_exp2_fixed(u32 y)
{
	return exp2_fixed(y);
}
u64 perigee_power_fixed(u64 x, u32 exponent, u32 shift)
{
	return power_fixed(x, exponent, shift);
}
s64 perigee_divide(s64 a, s64 b)
{
	return divide(a, b);
}
