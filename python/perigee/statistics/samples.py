# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Points that fill a unit cube evenly: Latin hypercubes, and Sobol's sequence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BITS = 30
PRIMITIVE = (
    (0, (1,)), (1, (1, 3)), (1, (1, 3, 1)), (2, (1, 1, 1)), (1, (1, 1, 3, 3)), (4, (1, 3, 5, 13)),
    (2, (1, 1, 5, 5, 17)), (4, (1, 1, 5, 5, 5)), (7, (1, 1, 7, 11, 19)), (11, (1, 1, 5, 1, 1)),
    (13, (1, 1, 1, 3, 11)), (14, (1, 3, 5, 5, 31)), (1, (1, 3, 3, 9, 7, 49)), (13, (1, 1, 1, 15, 21, 21)),
    (16, (1, 3, 1, 13, 27, 49)), (19, (1, 1, 1, 15, 7, 5)), (22, (1, 3, 1, 15, 13, 25)),
    (25, (1, 1, 5, 5, 19, 61)), (1, (1, 3, 7, 11, 23, 15, 103)),
)  # fmt: skip
"""Inner coefficients of a primitive polynomial, as bits, and first numbers, of each axis but the first.

Source: Joe and Kuo, SIAM Journal on Scientific Computing 30 (2008), `new-joe-kuo-6`.
"""
MOST_AXES = 1 + len(PRIMITIVE)


def latin_hypercube(random: np.random.Generator, axes: int, points: int) -> Floats:
    """Return points of which each part of each axis, cut into as many parts as there are points, has one.

    Source: McKay, Beckman and Conover, Technometrics 21 (1979).

    Examples:
        >>> drawn = latin_hypercube(np.random.default_rng(1), 2, 4)
        >>> np.sort(np.floor(4 * drawn), axis=0).T.tolist()
        [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]]
    """
    within = random.uniform(size=(points, axes))
    parts = np.tile(np.arange(1, points + 1), (axes, 1))
    for axis in parts:
        random.shuffle(axis)
    return np.asarray((parts.T - within) / points)


def sobol(random: np.random.Generator, axes: int, points: int) -> Floats:
    """Return the first points of Sobol's sequence, scrambled: a power of two of them leaves the smallest gaps.

    Each axis is scrambled by a random lower triangular matrix of bits and shifted (Matousek, Journal of Complexity 14,
    1998).

    Args:
        random: draws the scrambling.
        axes: up to `MOST_AXES`.
        points: their number.

    Examples:
        >>> drawn = sobol(np.random.default_rng(1), 3, 8)
        >>> np.sort(np.floor(8 * drawn), axis=0).T.tolist() == [list(range(8))] * 3
        True
    """
    places = np.arange(BITS)
    # The bits of the direction numbers, the first the highest, and Gray's code of the points.
    bits = (np.array([_directions(axis) for axis in range(axes)])[..., None] >> places[::-1]) & 1
    index = np.arange(points)
    code = ((index ^ (index >> 1))[:, None] >> places) & 1
    scramble = np.tril(random.integers(0, 2, (axes, BITS, BITS)), -1) + np.eye(BITS, dtype=int)
    shift = random.integers(0, 2, (axes, 1, BITS))
    drawn = code.astype(float) @ (bits @ scramble.transpose(0, 2, 1)).astype(float)
    return np.asarray((((drawn + shift) % 2) @ 0.5 ** (places + 1.0)).T)


def _directions(axis: int) -> list[int]:
    """Return the direction numbers of an axis, each with `BITS` bits."""
    if axis == 0:
        return [1 << (BITS - 1 - place) for place in range(BITS)]
    inner, first = PRIMITIVE[axis - 1]
    degree = len(first)
    numbers = [m << (BITS - 1 - place) for place, m in enumerate(first)]
    for place in range(degree, BITS):
        number = numbers[place - degree] ^ (numbers[place - degree] >> degree)
        for back in range(1, degree):
            if (inner >> (degree - 1 - back)) & 1:
                number ^= numbers[place - back]
        numbers.append(number)
    return numbers
