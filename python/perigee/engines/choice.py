# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The engines by the names that `--engine` takes."""

from __future__ import annotations

from collections.abc import Callable

from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.engines.plan.contract import Engine
from perigee.engines.plan.native import Emulator, Simulator
from perigee.errors import InputError


def engine(
    name: str,
    say: Callable[[str], None] = lambda _text: None,
    *,
    force: bool = False,
    limits: CodeLimits = DEFAULT_LIMITS,
    cluster: str | None = None,
) -> Engine:
    """Return the engine called `name`; it says with `say` what happens while it works.

    With `force` it begins what this machine is too slow for; `limits` are those of authors' code in simulated runs.
    With `cluster`, the address of a Dask scheduler, its workers simulate.

    Raises:
        InputError: there is no such engine, or it has no use for a cluster.

    Examples:
        >>> engine("emu").most_at_once
        1
        >>> engine("lab")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --engine lab: there is no such engine; the engines are: sim, emu, live
        >>> engine("emu", cluster="tcp://scheduler:8786")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --cluster: only simulated runs go to a cluster; leave out --engine emu
    """
    if cluster is not None:
        if name != "sim":
            raise InputError(f"--cluster: only simulated runs go to a cluster; leave out --engine {name}")
        from perigee.engines.cluster.engine import ClusterSimulator

        return ClusterSimulator(cluster)
    match name:
        case "sim":
            return Simulator(limits)
        case "emu":
            return Emulator(say, force=force)
        case "live":
            from perigee.engines.live.engine import Live

            return Live(say)
    raise InputError(f"--engine {name}: there is no such engine; the engines are: sim, emu, live")
