# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The engines by the names that `--engine` takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.engines.plan.contract import Engine
from perigee.errors import InputError
from perigee.store.origins import ENGINES


def engine(
    name: str,
    say: Callable[[str], None] = lambda _text: None,
    *,
    force: bool = False,
    late_s: float = math.inf,
    limits: CodeLimits = DEFAULT_LIMITS,
) -> Engine:
    """Return the engine called `name`; it reports with `say`.

    `force` starts runs that this machine is too slow for; emulated runs whose packets are released later than `late_s`,
    s, are carried out again, up to five times in all; `limits` bound users' code in processes of its own.

    Raises:
        InputError: the engine does not exist, or cannot release packets late.

    Examples:
        >>> engine("lab")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --engine lab: there is no such engine; the engines are: sim, emu, live
        >>> engine("sim", late_s=0.002)
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --repeat-late: only emulated runs come late; add --engine emu, or leave it out
    """
    if late_s < math.inf and name != "emu":
        raise InputError("--repeat-late: only emulated runs come late; add --engine emu, or leave it out")
    match name:
        case "sim":
            from perigee.engines.sim.engine import Simulator

            return partial(Simulator, limits=limits)
        case "emu":
            from perigee.engines.emu.engine import Emulator

            return partial(Emulator, say=say, force=force, late_s=late_s, limits=limits)
        case "live":
            from perigee.engines.live.engine import Live

            return partial(Live, say=say)
    raise InputError(f"--engine {name}: there is no such engine; the engines are: {', '.join(ENGINES)}")
