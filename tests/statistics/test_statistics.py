# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The statistics against hand-computed values, SciPy, and laws that hold for any sample."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from perigee.statistics import estimates
from perigee.statistics.signed_ranks import EXACT_UP_TO, signed_rank_p

VALUES = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3))
SAMPLES = st.lists(VALUES, min_size=1, max_size=60)
PAIRS = st.lists(VALUES, min_size=2, max_size=40)

A = [95.8, 91.0, 112.1, 91.8, 101.3]
B = [90.1, 85.0, 99.9, 88.7]


def test_a_box_has_quartiles_and_whiskers_as_computed_by_hand() -> None:
    # Quartiles 3, 5, 7: an interquartile range of 4, so whiskers reach to 3 - 5.6 and 7 + 5.6.
    found = estimates.box([1, 3, 5, 7, 12.7])
    assert (found.low, found.q1, found.median, found.q3, found.high) == (1, 3, 5, 7, 7)
    assert found.outliers == (12.7,)
    assert estimates.box([1, 3, 5, 7, 12.6]).outliers == ()


@given(SAMPLES)
def test_a_box_holds_every_value_either_between_its_whiskers_or_as_an_outlier(sample: list[float]) -> None:
    found = estimates.box(sample)
    assert found.q1 <= found.median <= found.q3
    inside = [value for value in sample if found.low <= value <= found.high]
    assert sorted([*inside, *found.outliers]) == sorted(sample)


@given(SAMPLES)
def test_quartiles_split_a_sample_into_quarters(sample: list[float]) -> None:
    found = estimates.box(sample)
    n = len(sample)
    for quantile, share in ((found.q1, 0.25), (found.median, 0.5), (found.q3, 0.75)):
        slack = 1e-9 * (1 + abs(quantile))
        assert sum(value <= quantile + slack for value in sample) >= share * (n - 1)
        assert sum(value >= quantile - slack for value in sample) >= (1 - share) * (n - 1)


@given(SAMPLES)
def test_a_cumulative_distribution_rises_to_one_and_counts_what_is_at_or_below(sample: list[float]) -> None:
    x, share = estimates.cumulative(sample)
    assert share[-1] == 1
    assert (np.diff(x) > 0).all()
    assert (np.diff(share) > 0).all()
    for value, part in zip(x, share, strict=True):
        assert part == pytest.approx(np.mean(np.asarray(sample) <= value))


def test_weights_of_a_cumulative_distribution_are_counts() -> None:
    assert estimates.cumulative([2, 1], [1, 3])[1].tolist() == [0.75, 1.0]


def test_the_unpaired_test_is_the_one_of_scipy_with_its_interval() -> None:
    ours = estimates.welch(A, B)
    theirs = stats.ttest_ind(A, B, equal_var=False)
    interval = theirs.confidence_interval(0.95)
    assert ours is not None
    assert (ours.t, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert ours.degrees == pytest.approx(theirs.df)
    assert ours.difference - ours.half_width == pytest.approx(interval.low)
    assert ours.difference + ours.half_width == pytest.approx(interval.high)
    assert ours.p_wilcoxon is None


def test_the_paired_tests_are_those_of_scipy_with_their_interval() -> None:
    first, second = A, [90.1, 95.0, 99.9, 88.7, 100.0]
    ours = estimates.paired(first, second)
    theirs = stats.ttest_rel(first, second)
    interval = theirs.confidence_interval(0.95)
    assert ours is not None
    assert (ours.t, ours.p, ours.degrees) == pytest.approx((theirs.statistic, theirs.pvalue, theirs.df))
    assert ours.difference - ours.half_width == pytest.approx(interval.low)
    assert ours.difference + ours.half_width == pytest.approx(interval.high)
    assert ours.p_wilcoxon == pytest.approx(stats.wilcoxon(first, second).pvalue)


def test_wilcoxons_p_is_the_share_of_signs_that_give_a_rank_sum_as_extreme() -> None:
    differences = np.array([3.0, -1.0, 4.5, 2.0, 6.0, -0.5])
    ranks = stats.rankdata(np.abs(differences))
    sums = [float((ranks * (np.array(signs) > 0)).sum()) for signs in itertools.product((-1, 1), repeat=6)]
    seen = float(ranks[differences > 0].sum())
    middle = ranks.sum() / 2
    extreme = np.mean([abs(one - middle) >= abs(seen - middle) for one in sums])
    ours = estimates.paired(10 + differences, np.full(6, 10.0))
    assert ours is not None
    assert ours.p_wilcoxon == pytest.approx(extreme)


@settings(max_examples=40)
@given(st.lists(st.integers(-60, 60), min_size=1, max_size=9).filter(any))
def test_wilcoxons_p_is_scipys_with_ties_and_zeros_too(differences: list[int]) -> None:
    theirs = stats.wilcoxon([one for one in differences if one])
    assert signed_rank_p(differences) == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("n", [14, 50, 51, 200])
def test_wilcoxons_p_of_many_differences_is_scipys(n: int) -> None:
    draws = np.random.default_rng(n).normal(0.3, 1.0, n)
    assert signed_rank_p(draws) == pytest.approx(stats.wilcoxon(draws).pvalue)
    in_ties = np.round(draws * 4)[np.round(draws * 4) != 0]
    method = "approx" if len(in_ties) > EXACT_UP_TO else "auto"
    slack = 1e-12 if len(in_ties) > EXACT_UP_TO else 0.02
    assert signed_rank_p(in_ties) == pytest.approx(stats.wilcoxon(in_ties, method=method).pvalue, abs=slack)


def test_pairs_find_a_difference_that_the_variation_between_rounds_hides() -> None:
    moods = np.array([50.0, 80.0, 120.0, 60.0, 95.0, 140.0])
    better = moods + np.array([2.0, 2.5, 1.8, 2.2, 2.1, 2.4])
    in_pairs, independent = estimates.paired(better, moods), estimates.welch(better, moods)
    assert in_pairs is not None
    assert independent is not None
    assert in_pairs.p < 0.001 < 0.5 < independent.p
    assert in_pairs.half_width < 0.02 * independent.half_width


def test_rounding_is_no_variation() -> None:
    # Equal values whose computed variance is not zero in about a third of all samples.
    value = 0.1 + np.arange(1000) / 7
    rounded = [np.full(7, one) for one in value]
    assert any(float(sample.var(ddof=1)) > 0 for sample in rounded)
    for sample in rounded:
        other = sample * 0.98
        assert estimates.spread(sample) is None
        assert estimates.welch(sample, other) is None
        assert estimates.paired(sample, other) is None
        assert math.isnan(estimates.mean_interval(sample)[1])


def test_a_variation_of_a_millionth_is_no_rounding() -> None:
    assert estimates.spread([1e6, 1e6 + 1]) == pytest.approx(math.sqrt(0.5))
    assert estimates.welch([1e6, 1e6 + 1], [1e6, 1e6 + 3]) is not None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_correction_lies_between_p_and_bonferronis_and_keeps_the_order(p: list[float]) -> None:
    corrected = estimates.holm(p)
    for before, after in zip(p, corrected, strict=True):
        assert before <= after <= min(1.0, len(p) * before) + 1e-12
    ranks = np.argsort(p, kind="stable")
    assert all(corrected[low] <= corrected[high] for low, high in itertools.pairwise(ranks))


def test_the_correction_is_holms_as_computed_by_hand() -> None:
    # Sorted: 0.005 x 4, 0.01 x 3, then 0.03 x 2 = 0.06, which the last (0.04 x 1) may not fall below.
    assert estimates.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_cohens_d_is_the_difference_over_the_pooled_deviation() -> None:
    # Both samples have a variance of 1; their means differ by 2.
    for found in (estimates.welch([3, 4, 5], [1, 2, 3]), estimates.paired([3, 4, 5], [1, 3, 2])):
        assert found is not None
        assert found.d == pytest.approx(2)


def test_a_single_value_cannot_be_tested() -> None:
    assert estimates.welch([1], [2, 3]) is None
    assert estimates.paired([1], [2]) is None


@given(PAIRS, PAIRS)
def test_swapping_the_samples_changes_the_sign_and_nothing_else(a: list[float], b: list[float]) -> None:
    shorter = min(len(a), len(b))
    for one, other in (
        (estimates.welch(a, b), estimates.welch(b, a)),
        (estimates.paired(a[:shorter], b[:shorter]), estimates.paired(b[:shorter], a[:shorter])),
    ):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.t == pytest.approx(-other.t)
            assert (one.p, one.half_width) == pytest.approx((other.p, other.half_width))


def test_the_interval_of_a_mean_is_the_one_of_scipy() -> None:
    mean, half = estimates.mean_interval(A)
    low, high = stats.t.interval(0.95, len(A) - 1, loc=np.mean(A), scale=stats.sem(A))
    assert mean - half == pytest.approx(low)
    assert mean + half == pytest.approx(high)


def test_one_value_has_no_interval() -> None:
    mean, half = estimates.mean_interval([7.0])
    assert mean == 7
    assert math.isnan(half)


def test_equal_means_have_the_degrees_of_welch_too() -> None:
    first, second = [1, 3], [1.9, 2.1, 1.8, 2.2, 2, 2, 2, 2, 2, 2]
    found = estimates.welch(first, second)
    interval = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert found is not None
    assert found.difference == 0
    assert found.half_width == pytest.approx(interval.high)
    assert found.half_width == pytest.approx(12.65, abs=0.01)


@given(st.lists(st.floats(0.001, 1e3), min_size=1, max_size=20))
def test_fairness_lies_between_one_nth_and_one(rates: list[float]) -> None:
    assert 1 / len(rates) - 1e-9 <= estimates.jain(rates) <= 1 + 1e-9


def test_a_download_reaches_a_size_between_the_points_of_its_series() -> None:
    times = estimates.time_of_size([1, 2, 3], [0, 1000, 1000], [0, 250, 1000, 1001])
    assert times[1] == pytest.approx(1.25)
    assert times[2] <= 3
    assert math.isnan(times[3])


def test_the_most_typical_flow_is_the_one_nearest_to_the_medians() -> None:
    assert estimates.most_typical([[1, 100], [5, 500], [9, 900], [5, 100]]) == 1


def test_an_empty_sample_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match="the sample is empty"):
        estimates.box([])


@pytest.mark.parametrize(("t", "degrees"), [(0.0, 3), (3.0, 9), (-3.0, 9), (0.1, 1), (25.0, 2), (-29.9, 2), (29.0, 79)])
def test_the_ends_of_an_effects_interval_leave_two_and_a_half_percent_on_each_side(t: float, degrees: int) -> None:
    low, high = estimates.noncentrality(t, degrees)
    assert stats.nct.sf(t, degrees, low) == pytest.approx(0.025, abs=1e-3)
    assert stats.nct.cdf(t, degrees, high) == pytest.approx(0.025, abs=1e-3)


def test_the_interval_of_a_large_t_is_nearly_that_of_the_noncentral_t() -> None:
    low, high = estimates.noncentrality(31.0, 79)
    assert stats.nct.sf(31.0, 79, low) == pytest.approx(0.025, abs=2e-3)
    assert stats.nct.cdf(31.0, 79, high) == pytest.approx(0.025, abs=2e-3)


def test_the_effect_of_independent_samples_is_hedges_g_and_that_of_pairs_d_z() -> None:
    a, b = [5.0, 6.0, 7.0, 9.0], [1.0, 2.0, 3.0, 4.5]
    independent, pairs = estimates.welch(a, b), estimates.paired(a, b)
    for found in (independent, pairs):
        assert found is not None
        assert found.effect_low is not None
        assert found.effect_high is not None
        assert found.effect_low < found.effect < found.effect_high
    assert independent is not None
    assert pairs is not None
    assert independent.effect == pytest.approx(independent.d * (1 - 3 / (4 * 6 - 1)))
    differences = np.subtract(a, b)
    assert pairs.effect == pytest.approx(differences.mean() / differences.std(ddof=1))


def test_an_effect_of_independent_samples_has_an_interval_where_that_holds() -> None:
    few, many = [1.0, 4.0, 2.0, 9.0, 4.0], [11.0, 12.0, 11.5, 12.5, 11.2, 12.2, 11.7, 12.1, 11.9, 12.4]
    unequal = estimates.welch(many, few)
    assert unequal is not None
    assert (unequal.effect_low, unequal.effect_high) == (None, None)
    assert unequal.effect > 0
    of_one_size = estimates.welch(many[:5], few)
    assert of_one_size is not None
    assert of_one_size.effect_low is not None
    alike = estimates.welch(many, [value - 1 for value in many[:5]])
    assert alike is not None
    assert alike.effect_low is not None


def test_an_effect_has_a_word_where_its_data_carry_one() -> None:
    found = ((4, 0.001), (5, 0.05), (5, None), (5, 0.049))
    words = [estimates.effect_said(2.0, values, p, 0.05) for values, p in found]
    assert words == ["", "", "", " (large)"]
    assert estimates.glass_delta([9.0, 10.0], [1.0, 1.1]) is None
