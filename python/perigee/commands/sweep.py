# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee sweep`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from perigee.commands import options
from perigee.commands.run import do
from perigee.console import say
from perigee.errors import InputError
from perigee.places import find_study
from perigee.store.origins import ENGINES


@dataclass(frozen=True)
class SweepOptions:
    """Options and arguments of `perigee sweep`."""

    study: options.Study
    over: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=VALUES",
            help="Values V1,V2, a range A..B, or log A..B for equal ratios; A..B:5 is a grid of five values; "
            "1..5 has whole numbers, 1.0..5.0 fractions too. May be given several times.",
        ),
    ]
    design: Annotated[
        str,
        typer.Option(
            metavar="grid|lhs|sobol",
            help="grid: every combination. lhs: a Latin hypercube. sobol: a scrambled Sobol sequence.",
        ),
    ] = "grid"
    points: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=100_000, help="Number of points of a Latin hypercube or Sobol sequence."),
    ] = None
    refine: Annotated[
        str | None,
        typer.Option(
            metavar="POINTS",
            help="Add points to the grid where the throughput changes most, up to this number: 24; "
            '"rtt_mean_ms 24" takes another column of flows, "24 5 %" ignores changes below 5 % of the range.',
        ),
    ] = None
    design_seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Seed of the points, independent of the study's seed.")
    ] = 1
    engine: Annotated[str, typer.Option(metavar="|".join(ENGINES), help="Engine, see `perigee run`.")] = "sim"
    settings: options.Settings = None
    reduced: options.Reduced = False
    jobs: options.Jobs = None
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Results folder. \\[default: results/STUDY-sweep]"),
    ] = None
    shard: options.Shard = None
    fresh: options.Fresh = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs.")] = False


def command(given: SweepOptions) -> None:
    """Run a study at many points of ranges of its settings.

    Keys that the study varies also vary at each point; a key given with --over takes the values of the points
    instead. One or two keys with a few values form a grid: the report draws lines and heat maps over it. Many keys
    need fewer points as a Latin hypercube or Sobol sequence, whose tables `perigee.load` reads with a column for each
    key. The same --design-seed gives the same points.

    --refine starts from a grid of one or two ranges, and bisects the intervals between neighbours whose means
    differ most, down to 1/64 of an interval. The points depend on results alone: the same command gives the same
    points and tables, for any number of concurrent runs. Its results are those of a sweep over all these points.

    [bold]Examples[/bold]

      perigee sweep claypool-2021 --over links.satellite.down.loss="log 0.001 %..1 %:7" --reduced
      perigee sweep ./my-study.toml --over links.sat.delay="10..300 ms:6" --over hosts.initial_window=10,40
      perigee sweep ./my.toml --design lhs --points 64 --over links.sat.delay="9..300 ms" --over links.sat.loss="0..1 %"
      perigee sweep ./my.toml --over links.sat.loss="log 0.001 %..10 %:5" --refine 24
      perigee sweep ./my.toml --over links.sat.loss="0..2 %:4" --over flow.count=1..9:3 --refine "rtt_mean_ms 60"
    """
    from perigee.api.designs import read_axis, settings_of
    from perigee.api.refinement import Refinement, Rule
    from perigee.engines import choice
    from perigee.engines.run.job import Job
    from perigee.engines.run.part import Part

    refinement = None
    settings = [*(given.settings or ())]
    axes = [read_axis(text) for text in given.over]
    if given.refine is None:
        settings += settings_of(axes, given.design, given.points, given.design_seed)
    else:
        _check_refinable(given)
        refinement = Refinement(axes, Rule.read(given.refine))
    job = Job(
        study=find_study(given.study),
        engine=choice.engine(given.engine, say),
        settings=tuple(settings),
        reduced=given.reduced,
        out=given.out,
        workers=given.jobs,
        fresh=given.fresh,
        part=Part.read(given.shard) if given.shard is not None else None,
        suffix="-sweep",
    )
    try:
        do(job, dry_run=given.dry_run, refinement=refinement)
    except InputError as error:
        # The points are values that vary; the option that has them is another one here.
        if not str(error).startswith("--vary "):
            raise
        raise InputError(f"--over {str(error).removeprefix('--vary ')}") from error


def _check_refinable(given: SweepOptions) -> None:
    own = {f"--design {given.design}": given.design != "grid", "--points": given.points, "--shard": given.shard}
    for option in (name for name, value in own.items() if value):
        raise InputError(f"--refine: starts from a grid, and chooses its points by results; leave out {option}")
