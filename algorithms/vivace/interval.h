/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * PCC Vivace: a monitor interval, its measurements, and the noise in them.
 *
 * Units: see vivace.c.
 */
#ifndef PERIGEE_VIVACE_INTERVAL_H
#define PERIGEE_VIVACE_INTERVAL_H

#include "fixed_point.h"

/* Gradients of the round trip (s/s) << 16. */
#define SLOPE_SHIFT 16
#define SLOPE_ONE (1 << SLOPE_SHIFT)
/* Regression: time in 64 us, round trips within 2 s of the interval's first, at most 2^20 samples: sums fit 64 bits. */
#define TIME_SHIFT 6
#define TIME_MAX (1U << 18)
#define OFFSET_MAX_US (1 << 21)
#define SAMPLES_MAX (1U << 20)
#define SAMPLES_MIN 4

struct interval {
	u64 start_us;
	u64 rate;        /* asked for, bytes/s */
	u64 bytes;       /* `bytes_sent` at its start; once closed, the bytes it sent */
	s64 sum_rtt;     /* of offsets from first_rtt, us */
	s64 sum_time_rtt;
	u64 sum_time;
	u64 sum_time_time;
	u32 length_us;   /* 0: still open */
	u32 end_seq;
	u32 samples;
	u32 first_rtt;   /* us */
	u32 first_smoothed, last_smoothed;
	u32 losses;
	u8 purpose;
	u8 unusable;     /* the application, not the rate, was the limit */
	u8 peer_full;    /* the peer's window was full */
};

static inline void interval_add(struct interval *in, u64 now, u32 rtt_us, u32 smoothed_us)
{
	/* On the sender's time axis: when the acknowledged packet left. */
	u64 left = now > rtt_us ? now - rtt_us : 0, t = left > in->start_us ? (left - in->start_us) >> TIME_SHIFT : 0;
	s64 offset;

	if (in->samples >= SAMPLES_MAX)
		return;
	if (in->samples == 0) {
		in->first_rtt = rtt_us;
		in->first_smoothed = smoothed_us;
	}
	in->last_smoothed = smoothed_us;
	t = min64(t, TIME_MAX);
	offset = (s64)rtt_us - (s64)in->first_rtt;
	offset = offset > OFFSET_MAX_US ? OFFSET_MAX_US : offset < -OFFSET_MAX_US ? -OFFSET_MAX_US : offset;
	in->samples++;
	in->sum_time += t;
	in->sum_time_time += t * t;
	in->sum_rtt += offset;
	in->sum_time_rtt += (s64)t * offset;
}

/* Least squares: slope = cov(t, RTT) / var(t). */
static inline s64 interval_slope(const struct interval *in)
{
	u64 mean_time = in->samples ? in->sum_time / in->samples : 0, variance;
	s64 covariance;

	if (in->samples < SAMPLES_MIN)
		return 0;
	variance = in->sum_time_time - mean_time * in->sum_time;
	covariance = in->sum_time_rtt - (s64)mean_time * in->sum_rtt;
	/* cov / var is in us per 64 us: << 16 and >> 6. */
	return divide(covariance, (s64)(variance >> (SLOPE_SHIFT - TIME_SHIFT)));
}

/* Between the smoothed round trips at its first and last sample; none within what two packets take. */
static inline s64 interval_ends_slope(const struct interval *in, u32 mss)
{
	s64 rise = (s64)in->last_smoothed - (s64)in->first_smoothed;
	u64 packets = in->bytes / max32(mss, 1);

	if (in->samples < SAMPLES_MIN || magnitude(rise) * packets < 2ULL * in->length_us)
		return 0;
	return divide(rise * SLOPE_ONE, (s64)max32(in->length_us, 1));
}

static inline u32 interval_mean_rtt(const struct interval *in)
{
	s64 mean = (s64)in->first_rtt + divide(in->sum_rtt, in->samples);

	return mean > 0 ? (u32)mean : 0;
}

#endif
