# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The commands at a glance: what `perigee --help` shows, without what reads command lines and without any command."""

from __future__ import annotations

from perigee.commands.tree import HELP, Command, described, switch

ABOUT = "Predict and measure how TCP behaves over satellite links."
EXAMPLES = """
Examples

  perigee studies                                       the available studies
  perigee run claypool-2021 --reduced                   one of them, at its small size
  perigee report results/claypool-2021-reduced          its tables and figures as one page
  perigee exec --link geo -- curl ...                   any program behind a link
  perigee cc new mycc                                   your own congestion control
  perigee cc evaluate mycc/mycc.c --quick               a verdict for each criterion of RFC 9743
  perigee pep check pep.toml                            a configuration of the proxy
  perigee serve                                         all of this as a web page

Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 130 interrupted (resumable).
"""

GROUPS = {
    "Studies": {
        "run": "Run a study and write its results to a folder.",
        "report": "Write tables and figures of a finished study.",
        "compare": "Compare results of a study cell by cell: engines, versions, settings.",
        "score": "Hold a study against what was published, or a link model against a campaign.",
        "sweep": "Run a study at many points of ranges of its settings.",
        "merge": "Merge the shards of a study that several machines or jobs ran.",
        "verify": (
            "Check that results are whole, and print the sums of their values, or compare them with published ones."
        ),
        "studies": "List studies, and show what each asks.",
        "new": "Create a working study to start from (`perigee cc new` creates a congestion control).",
    },
    "Your link": {
        "profiles": "List, show and draw link profiles, and import the links of tc, ns-3 and other tools.",
        "orbit": (
            "Orbits: satellites in view, the serving satellite and the delay over time, for a profile with "
            '`kind = "orbit"`.'
        ),
        "exec": "Run any program behind an emulated satellite link.",
        "emu": "Emulated links: clean up.",
        "analyze": "Compute a study's metrics from captures and logs of real transfers.",
        "campaign": "Make a measurement campaign into results like a study's, by a manifest of its files.",
        "probe": "Measure capacity, loss, loss bursts and delay under load of a real path.",
        "rrul": "Measure latency under load of a real path, as a page; compare one evening with another.",
        "fit": "Fit a link profile to measurements of a real path.",
        "quic": "QUIC stacks of others: install and list them, and measure them over satellite links.",
        "advise": "Say which settings gain over a path, and by which commands they are set and undone.",
    },
    "Your algorithm": {
        "cc": "Congestion controls: list them, show their parameters, check your own, load them into the kernel.",
        "hosts": "List the systems whose TCP hosts can have, and show their settings.",
    },
    "Your operator's box": {
        "pep": "The proxy that splits TCP connections over satellite links: a front end of the program perigee-pep.",
    },
    "For others": {
        "serve": "Serve the web page that runs studies: queue, results, links and algorithms.",
        "publish": "Write the results of a working folder as a static site.",
        "agent": "Agents of a laboratory: other hosts that run flows of live studies.",
    },
    "This program": {
        "doctor": (
            "Check what this host has, what is missing for which command, and print fixes, without changing anything."
        ),
        "completion": "Print the script that completes commands, options, names and files in your shell.",
        "man": "Write the manual pages: perigee.1, and one per command.",
    },
}
"""Commands by what a person wants, in the order of the help, with the first sentence of the help of each: their modules
are slow to import. Each is a module of this package, with a function `command`, or `app` where it has commands of its
own."""
COMMANDS = {name: first for group in GROUPS.values() for name, first in group.items()}
"""All of them."""
HIDDEN = ("candidates", "work")
"""Likewise, for programs: in no help."""
VERSION = "Print the version and exit."


def overview() -> Command:
    """Return the documentation of the program itself, as `tree` has it of its whole command line."""
    summary, paragraphs, examples, closing = described(f"{ABOUT}\n{EXAMPLES}")
    return Command(
        path=("perigee",),
        summary=summary,
        paragraphs=paragraphs,
        examples=examples,
        closing=closing,
        arguments=(),
        options=(switch("--version", text=VERSION), HELP),
        commands=tuple(
            Command(("perigee", name), first, (), (), (), (), (), (), title)
            for title, group in GROUPS.items()
            for name, first in group.items()
        ),
    )
