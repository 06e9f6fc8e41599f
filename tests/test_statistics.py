# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The statistics against hand-computed values, SciPy, and laws that hold for any sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from perigee import statistics

VALUES = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3))
SAMPLES = st.lists(VALUES, min_size=1, max_size=60)
PAIRS = st.lists(VALUES, min_size=2, max_size=40)

A = [95.8, 91.0, 112.1, 91.8, 101.3]
B = [90.1, 85.0, 99.9, 88.7]


def test_a_box_has_quartiles_and_whiskers_as_computed_by_hand() -> None:
    # Quartiles 3, 5, 7: an interquartile range of 4, so whiskers reach to 3 - 5.6 and 7 + 5.6.
    found = statistics.box([1, 3, 5, 7, 12.7])
    assert (found.low, found.q1, found.median, found.q3, found.high) == (1, 3, 5, 7, 7)
    assert found.outliers == (12.7,)
    assert statistics.box([1, 3, 5, 7, 12.6]).outliers == ()


@given(SAMPLES)
def test_a_box_holds_every_value_either_between_its_whiskers_or_as_an_outlier(sample: list[float]) -> None:
    found = statistics.box(sample)
    assert found.q1 <= found.median <= found.q3
    inside = [value for value in sample if found.low <= value <= found.high]
    assert sorted([*inside, *found.outliers]) == sorted(sample)


@given(SAMPLES)
def test_quartiles_split_a_sample_into_quarters(sample: list[float]) -> None:
    found = statistics.box(sample)
    n = len(sample)
    for quantile, share in ((found.q1, 0.25), (found.median, 0.5), (found.q3, 0.75)):
        slack = 1e-9 * (1 + abs(quantile))
        assert sum(value <= quantile + slack for value in sample) >= share * (n - 1)
        assert sum(value >= quantile - slack for value in sample) >= (1 - share) * (n - 1)


@given(SAMPLES)
def test_a_cumulative_distribution_rises_to_one_and_counts_what_is_at_or_below(sample: list[float]) -> None:
    x, share = statistics.cumulative(sample)
    assert share[-1] == 1
    assert (np.diff(x) > 0).all()
    assert (np.diff(share) > 0).all()
    for value, part in zip(x, share, strict=True):
        assert part == pytest.approx(np.mean(np.asarray(sample) <= value))


def test_weights_of_a_cumulative_distribution_are_counts() -> None:
    assert statistics.cumulative([2, 1], [1, 3])[1].tolist() == [0.75, 1.0]


def test_the_t_test_is_the_one_of_scipy() -> None:
    for welch in (False, True):
        ours = statistics.t_test(A, B, comparisons=3, welch=welch)
        theirs = stats.ttest_ind(A, B, equal_var=not welch)
        assert ours is not None
        assert ours.t == pytest.approx(theirs.statistic)
        assert ours.p == pytest.approx(theirs.pvalue)
        assert ours.degrees == pytest.approx(theirs.df)
        assert ours.p_adjusted == pytest.approx(min(1, 3 * theirs.pvalue))


def test_bonferroni_never_gives_a_probability_above_one() -> None:
    test = statistics.t_test([1, 2, 3], [1, 2, 3.1], comparisons=100)
    assert test is not None
    assert test.p_adjusted == 1
    assert not test.is_significant()


def test_cohens_d_is_the_difference_over_the_pooled_deviation() -> None:
    # Both samples have a variance of 1; their means differ by 2.
    test = statistics.t_test([3, 4, 5], [1, 2, 3])
    assert test is not None
    assert test.d == pytest.approx(2)


def test_two_samples_that_do_not_vary_cannot_be_tested() -> None:
    assert statistics.t_test([1, 1], [2, 2]) is None
    assert statistics.t_test([1], [2, 3]) is None


@given(PAIRS, PAIRS)
def test_swapping_the_samples_turns_the_sign_and_nothing_else(a: list[float], b: list[float]) -> None:
    one, other = statistics.t_test(a, b), statistics.t_test(b, a)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.t == pytest.approx(-other.t)
        assert one.p == pytest.approx(other.p)


def test_the_interval_of_a_mean_is_the_one_of_scipy() -> None:
    mean, half = statistics.mean_interval(A)
    low, high = stats.t.interval(0.95, len(A) - 1, loc=np.mean(A), scale=stats.sem(A))
    assert mean - half == pytest.approx(low)
    assert mean + half == pytest.approx(high)


def test_one_value_has_no_interval() -> None:
    mean, half = statistics.mean_interval([7.0])
    assert mean == 7
    assert math.isnan(half)


def test_the_interval_of_a_difference_is_the_one_of_scipy() -> None:
    difference, half = statistics.difference_interval(A, B)
    theirs = stats.ttest_ind(A, B, equal_var=False).confidence_interval(0.95)
    assert difference - half == pytest.approx(theirs.low)
    assert difference + half == pytest.approx(theirs.high)


def test_equal_means_have_an_interval_too() -> None:
    difference, half = statistics.difference_interval([1, 3], [1, 3])
    assert difference == 0
    assert half == pytest.approx(float(stats.t.ppf(0.975, 2)) * math.sqrt(2))


@given(st.lists(st.floats(0.001, 1e3), min_size=1, max_size=20))
def test_fairness_lies_between_one_nth_and_one(rates: list[float]) -> None:
    assert 1 / len(rates) - 1e-9 <= statistics.jain(rates) <= 1 + 1e-9


def test_a_download_reaches_a_size_between_the_points_of_its_series() -> None:
    times = statistics.time_of_size([1, 2, 3], [0, 1000, 1000], [0, 250, 1000, 1001])
    assert times[1] == pytest.approx(1.25)
    assert times[2] <= 3
    assert math.isnan(times[3])


def test_the_most_typical_flow_is_the_one_nearest_to_the_medians() -> None:
    assert statistics.most_typical([[1, 100], [5, 500], [9, 900], [5, 100]]) == 1


def test_an_empty_sample_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match="the sample is empty"):
        statistics.box([])
