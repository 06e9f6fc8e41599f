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
    cluster: str | None = None,
) -> Engine:
    """Return the engine called `name`; it reports with `say`.

    `force` starts runs that this machine is too slow for; emulated runs whose packets are released later than `late_s`,
    s, are carried out again, up to five times in all; `limits` bound users' code in simulated runs.
    With `cluster`, the address of a Dask scheduler, the workers of the cluster simulate.

    Raises:
        InputError: the engine does not exist, or cannot use a cluster or release packets late.

    Examples:
        >>> engine("lab")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --engine lab: there is no such engine; the engines are: sim, emu, live
        >>> engine("emu", cluster="tcp://scheduler:8786")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --cluster: only simulated runs go to a cluster; leave out --engine emu
        >>> engine("sim", late_s=0.002)
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --repeat-late: only emulated runs come late; add --engine emu, or leave it out
    """
    if late_s < math.inf and name != "emu":
        raise InputError("--repeat-late: only emulated runs come late; add --engine emu, or leave it out")
    if cluster is not None:
        if name != "sim":
            raise InputError(f"--cluster: only simulated runs go to a cluster; leave out --engine {name}")
        from perigee.engines.cluster.engine import ClusterSimulator

        return partial(ClusterSimulator, address=cluster)
    match name:
        case "sim":
            from perigee.engines.sim.engine import Simulator

            return partial(Simulator, limits=limits)
        case "emu":
            from perigee.engines.emu.engine import Emulator

            return partial(Emulator, say=say, force=force, late_s=late_s)
        case "live":
            from perigee.engines.live.engine import Live

            return partial(Live, say=say)
    raise InputError(f"--engine {name}: there is no such engine; the engines are: {', '.join(ENGINES)}")
