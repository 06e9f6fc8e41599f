# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How packets are carried never shows in a result: random studies, plain, fast, with the TCP log and captures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adversary.conftest import Attempts
from adversary.parameters import PARAMETERS
from adversary.studies import SYSTEMS, WAYS, study
from perigee.core import native
from perigee.engines.sim.difference import first_difference
from perigee.errors import InputError
from perigee.places import headers
from perigee.store.streams import frames_of

STUDIES = 320
"""Studies of a part without `--torture`."""
MOST_REFUSED = 0.2

Carried = tuple[dict[str, Any], dict[str, bytes]]
"""Tables as the core gives them, and captures."""


def carried(text: str, settings: Sequence[str]) -> Carried:
    plan = native.Plan(text, "random.toml", list(settings), False, [], str(headers()))
    done = plan.run(0, "sim", "", lambda *_: True)
    assert done is not None
    return done


def same(text: str, one: str, other: str, tables: Sequence[dict[str, Any]]) -> None:
    """Assert that two ways have written the same tables."""
    if tables[0] != tables[1]:
        difference = first_difference(*map(frames_of, tables))
        raise AssertionError(f"{one} and {other}: {difference}\n{text}")


def test_studies_draw_every_parameter_of_every_algorithm_and_every_system() -> None:
    declared = {one.name: {parameter.name for parameter in one.params} for one in native.algorithms()}
    drawn = {name: {one.split()[0] for one in parameters} for name, parameters in PARAMETERS.items()}
    assert drawn == declared
    assert set(SYSTEMS) == {system.name for system in native.host_systems()}


def test_how_packets_are_carried_never_shows_in_a_result(attempts: Attempts, part: int) -> None:
    drawn = refused = 0
    for chance in attempts.part(part, STUDIES):
        text, drawn = study(chance), drawn + 1
        try:
            ways = {way: carried(text, settings) for way, settings in WAYS.items()}
        except InputError:
            refused += 1
            continue
        # A table without rows is not there.
        log = {way: {"events": tables.pop("events")} if "events" in tables else {} for way, (tables, _) in ways.items()}
        for way in WAYS:
            same(text, "fast", way, [ways["fast"][0], ways[way][0]])
        same(text, "events", "plain", [log[way] for way in ("events", "plain")])
        assert ways["captures"][1] == ways["plain"][1], f"the captures differ\n{text}"
    print(f"{drawn} studies, {refused} of them refused")
    assert drawn < 100 or refused < MOST_REFUSED * drawn
