# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Distributions, minima and samples against tables of the literature and laws that hold for any argument."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perigee.fitting.minimum import minimum_of_several
from perigee.statistics import samples, special

# Abramowitz and Stegun, Handbook of Mathematical Functions (1964), table 26.10: A(t, degrees) = 1 - 2 x share beyond t.
STUDENT = [
    (1, 0.975, 12.706), (1, 0.9995, 636.619), (2, 0.95, 2.920), (4, 0.975, 2.776), (10, 0.995, 3.169),
    (30, 0.9995, 3.646), (120, 0.975, 1.980),
]  # fmt: skip
# The same, table 26.8: chi squared by degrees of freedom that is exceeded with a probability.
CHI_SQUARED = [(1, 3.84146, 0.05), (2, 9.21034, 0.01), (10, 18.3070, 0.05), (30, 50.8922, 0.01), (100, 124.342, 0.05)]


@pytest.mark.parametrize(("degrees", "p", "t"), STUDENT)
def test_quantiles_of_students_t_are_those_of_the_handbook(degrees: int, p: float, t: float) -> None:
    assert special.student_quantile(degrees, p) == pytest.approx(t, abs=6e-4)
    assert special.student_beyond(degrees, special.student_quantile(degrees, p)) == pytest.approx(1 - p, rel=1e-9)


@pytest.mark.parametrize(("degrees", "value", "p"), CHI_SQUARED)
def test_chi_squared_is_that_of_the_handbook(degrees: int, value: float, p: float) -> None:
    assert special.gamma_beyond(degrees / 2, value / 2) == pytest.approx(p, rel=1e-4)


@pytest.mark.parametrize(("of", "share"), [(1, 0.3), (12, 0.5), (60, 0.02)])
def test_binomial_and_poisson_are_the_sums_of_their_terms(of: int, share: float) -> None:
    terms = [math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(of + 1)]
    mean = of * share
    poisson = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(of + 1)]
    for k in range(-1, of + 1):
        assert special.binomial_beyond(k, of, share) == pytest.approx(math.fsum(terms[k + 1 :]), rel=1e-10)
    for k in range(of + 1):
        assert special.gamma_beyond(k + 1, mean) == pytest.approx(math.fsum(poisson[: k + 1]), rel=1e-10)


@pytest.mark.parametrize(("degrees", "t", "delta"), [(1, 1.0, 2.0), (2, 5.0, 3.0), (9, 3.0, 0.5), (79, 29.0, 30.0)])
def test_the_noncentral_t_is_the_share_of_drawn_ones(degrees: int, t: float, delta: float) -> None:
    random = np.random.default_rng(1)
    draws = (random.normal(delta, 1, 400_000)) / np.sqrt(random.chisquare(degrees, 400_000) / degrees)
    assert special.student_share_with(degrees, delta, t) == pytest.approx(float(np.mean(draws <= t)), abs=3e-3)


def test_the_noncentral_t_is_students_without_noncentrality_and_normal_with_many_degrees() -> None:
    for degrees, t in ((1, 0.5), (3, 2.0), (40, 6.0)):
        assert special.student_share_with(degrees, 0, t) == pytest.approx(1 - special.student_beyond(degrees, t))
    assert special.student_share_with(10**6, 2.0, 3.0) == pytest.approx(special.normal_share(1.0), abs=1e-5)


def test_a_quantile_of_beta_is_where_its_share_is_reached() -> None:
    # Clopper and Pearson: of none lost in n, the upper bound solves (1 - x)^n = 0.025.
    assert special.beta_quantile(1, 1000, 0.975) == pytest.approx(1 - 0.025**0.001, rel=1e-9)
    for a, b in ((3, 98), (500, 2), (0.5, 0.5)):
        assert special.beta_share(a, b, special.beta_quantile(a, b, 0.3)) == pytest.approx(0.3, rel=1e-8)


def test_a_minimum_is_found_in_a_bent_valley_and_at_a_bound() -> None:
    # Rosenbrock's function, whose minimum is at (1, 1).
    def valley(x: np.ndarray) -> float:
        return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)

    found, least = minimum_of_several(valley, (-1.2, 1.0), [(-5, 5), (-5, 5)], 1e-8)
    assert found == pytest.approx([1, 1], abs=1e-4)
    assert least < 1e-8
    assert minimum_of_several(valley, (-1.2, 1.0), [(-5, 0.5), (-5, 5)])[0] == pytest.approx([0.5, 0.25], abs=1e-3)


def test_sobols_points_are_those_of_the_literature_and_fill_each_pair_of_axes() -> None:
    class Nothing:
        """Draws no scrambling."""

        def integers(self, low: int, high: int, size: tuple[int, ...]) -> np.ndarray:
            return np.zeros(size, dtype=int)

    # Joe and Kuo: the first points of the second and third axis.
    plain = samples.sobol(Nothing(), 3, 8)  # type: ignore[arg-type]
    assert plain[:, 1].tolist() == [0, 0.5, 0.25, 0.75, 0.375, 0.875, 0.125, 0.625]
    assert plain[:, 2].tolist() == [0, 0.5, 0.25, 0.75, 0.625, 0.125, 0.875, 0.375]
    drawn = samples.sobol(np.random.default_rng(3), samples.MOST_AXES, 64)
    assert (np.arange(64) == np.sort(np.floor(64 * drawn), axis=0).T).all()
    assert len(np.unique(np.floor(8 * drawn[:, :2]), axis=0)) == 64, "each square of 8 x 8 has one"
