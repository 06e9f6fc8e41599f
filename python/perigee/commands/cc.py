# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee cc`: lists, creates and checks congestion controls, and loads them into the kernel."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.cc import kernel
from perigee.cc.catalog import algorithm_of, algorithms, built_in
from perigee.commands import cc_memory, options
from perigee.commands.application import Application
from perigee.commands.attack import attack
from perigee.commands.cc_import import import_
from perigee.commands.cc_score import score
from perigee.commands.cc_standing import standing
from perigee.commands.cc_top import top
from perigee.commands.evaluate import evaluate
from perigee.console import out_console, result, say
from perigee.errors import InputError, PerigeeError, RunError
from perigee.groups.looks import name_of
from perigee.numbers import number

if TYPE_CHECKING:
    from perigee._core import Unloaded

app = Application(
    "Congestion controls: list them, show their parameters, check your own, load them into the kernel.",
    gone={
        "rule": "rules are routes now: `ip route replace PREFIX via GATEWAY congctl NAME`",
        "load --existing": "open connections keep what they have; new ones of a route: "
        "`ip route replace PREFIX via GATEWAY congctl NAME`",
    },
)
app.add_typer(cc_memory.app, name="memory")
app.command("import")(import_)
app.command()(top)
app.command()(evaluate)
app.command()(attack)
app.command()(score)
app.command()(standing)


@app.command("list")
def list_all() -> None:
    """List the available congestion controls: all run in the simulator, and can be loaded into the kernel.

    Beside what studies and commands call it stands its name; the last column has the names under which it is loaded
    now. State is the memory that an algorithm keeps per socket, in its private area and beyond.

    [bold]Example[/bold]

      perigee cc list
    """
    loaded, own = _in_the_kernel()
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("In studies", "Name", "What it is", "Parameters"):
        table.add_column(heading)
    table.add_column("State, bytes", justify="right")
    table.add_column("In the kernel")
    for one in algorithms():
        names = [entry["name"] for entry in loaded if entry["algorithm"] == one.name]
        if one.name in own:
            names.append(f"{one.name} (its own)")
        beyond = f" + {one.storage_bytes}" if one.storage_bytes else ""
        table.add_row(
            one.name,
            name_of(one.name),
            escape(one.title),
            ", ".join(param.name for param in one.params),
            f"{one.state_bytes}{beyond}",
            ", ".join(names),
        )
    built_in = {one.name for one in algorithms()}
    for entry in loaded:
        if entry["algorithm"] not in built_in:
            table.add_row(entry["algorithm"], "", escape(entry["origin"]), "", "", entry["name"])
    out_console.print(table)


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="ALGORITHM|FILE", help="Name of an algorithm, see `perigee cc list`, or its C file."),
    ],
) -> None:
    """Show a congestion control: its parameters, and the values that a study with `measure.states` writes.

    [bold]Example[/bold]

      perigee cc show hybla
      perigee cc show ./mycc.c
    """
    found = algorithm_of(Path(name))[0] if kernel.is_file(name) else built_in(name)
    out_console.print(f"[bold]{escape(found.name)}[/bold]: {escape(found.title)}", highlight=False)
    if found.params:
        rows = [(param.name, param.default, param.min, param.max, param.doc) for param in found.params]
        _show(("Parameter", "Default", "Smallest", "Largest", "What it is"), rows)
    else:
        out_console.print("It has no parameters.")
    if found.watched:
        values = [(name, _unit(unit), doc) for name, unit, doc in found.watched]
        _show(("Watched value", "Unit", "What it is"), values)


def _unit(unit: str) -> str:
    """Return the unit of a watched value for people.

    Examples:
        >>> _unit("1"), _unit("up|down"), _unit("us")
        ('', 'up, down', 'us')
    """
    return {"1": "", "switch": "on or off"}.get(unit, unit.replace("|", ", "))


def _show(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*(escape(text) for text in row))
    out_console.print(table)


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the algorithm: 1 to 15 of a-z, 0-9 and _.")],
    folder: Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="Parent of the new folder.")] = Path(),
) -> None:
    """Create your own congestion control: a working one to start from, with a study and its tests.

    Writes a folder NAME with NAME.c, its study and report settings, test_NAME.py and README.md. Existing files are
    never overwritten.

    [bold]Examples[/bold]

      perigee cc new mycc
      perigee run mycc/study.toml
    """
    from perigee.cc.skeleton import create

    made = create(name, folder)
    test, study = (shlex.quote(str(made / file)) for file in (f"test_{name}.py", "study.toml"))
    say(f"next: python {test}; perigee run {study}")
    result(str(made))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A C file.")],
    sequences: Annotated[int, typer.Option(metavar="N", min=1, help="Number of random sequences of events.")] = 2000,
    sequence: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Run only the random sequence of this number, to reproduce a failure."),
    ] = None,
    cc_stall: options.CcStall = options.DEFAULT_STALL,
    cc_memory: options.CcMemory = options.DEFAULT_MEMORY,
) -> None:
    """Check your own congestion control, without a study and without the kernel.

    Compiles it for the simulator and for the kernel, and feeds it random sequences of up to 400 events:
    acknowledgements, losses, timeouts, idle times. None may leave a window of zero packets, of one packet without a
    timeout, or of over 2^31 packets. An algorithm that owns its window (cong_control) may go down to one. A failure
    is printed with its line and a minimized sequence of events. Two minutes of an application that sends 20 kB at a
    time, one of them with a loss, show whether a window that is not used stays within bounds (RFC 7661). The events
    run in another process, so that crashes, divisions by zero and endless loops are found too. Floating point and
    functions of this host, which the kernel does not have, are reported with their lines.

    [bold]Example[/bold]

      perigee cc check ./mycc.c
      perigee cc check ./mycc.c --sequence 17
    """
    from perigee.cc.check import check_of

    count, first = (sequences, 0) if sequence is None else (1, sequence)
    compiled, wrong = check_of(file, count, options.code_limits(cc_stall, cc_memory), first=first)
    if compiled.warnings:
        say(compiled.warnings.rstrip())
    beyond = f" and {compiled.algorithm.storage_bytes} beyond" if compiled.algorithm.storage_bytes else ""
    result(f"{compiled.algorithm.name}: {compiled.algorithm.title}")
    result("ok: it compiles for the simulator")
    result(f"ok: its state takes {compiled.algorithm.state_bytes} bytes of a socket's private area{beyond}")
    if compiled.kernel_unknown:
        result(f"not checked: whether it compiles for the kernel: {compiled.kernel_unknown}")
    elif not compiled.kernel_error:
        result("ok: it compiles for the kernel")
    if not wrong:
        result(f"ok: {count} random sequences of events break no window")
    refused = f"{file}: does not compile for the kernel; correct what the compiler says:\n{compiled.kernel_error}"
    if wrong:
        if compiled.kernel_error:
            say(refused)
        raise RunError(wrong)
    if compiled.kernel_error:
        raise InputError(refused)
    if sequence is None:
        _check_unused(file, cc_stall, cc_memory)


def _check_unused(file: Path, stall: str, memory: str) -> None:
    """Say how far a window grows that is not used; refuse one that grows without end."""
    from perigee.engines import choice
    from perigee.evaluation.limited import IN_FLIGHT
    from perigee.evaluation.unused import LARGEST, unused_windows

    first, later = unused_windows(file, choice.engine("sim", say, limits=options.code_limits(stall, memory)))
    said = (
        f"while an application has {IN_FLIGHT} packets in flight, the window grows to {first}, after a loss to {later}"
    )
    if max(first, later) > LARGEST:
        raise RunError(f"{file}: {said}; let it grow where tcp_is_cwnd_limited() only (RFC 7661)")
    result(f"ok: {said}")


@app.command()
def load(
    what: Annotated[str, typer.Argument(help="Name of `perigee cc list`, or a C file.", metavar="ALGORITHM|FILE")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter; may be given several times."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name for TCP_CONGESTION, at most 15 characters.")
    ] = None,
    default: Annotated[bool, typer.Option("--default", help="Make it the default of this machine.")] = False,
    remember: Annotated[
        bool,
        typer.Option("--remember", help="With slow_start=careful: remember paths, see `perigee cc memory`."),
    ] = False,
    v4: Annotated[
        int, typer.Option("--v4", metavar="BITS", min=1, max=32, help="With --remember: length of IPv4 prefixes.")
    ] = kernel.Prefixes().v4,
    v6: Annotated[
        int, typer.Option("--v6", metavar="BITS", min=1, max=128, help="With --remember: length of IPv6 prefixes.")
    ] = kernel.Prefixes().v6,
) -> None:
    """Load a congestion control into the running kernel, as root, until `perigee cc unload` or a reboot.

    Prints the name by which sockets select it (TCP_CONGESTION): the algorithm's own, or p_NAME if the kernel has an
    algorithm of that name. A name that is already loaded is replaced: new sockets get the new version, open sockets
    keep the earlier one.

    With --default, new connections of the machine get it; a route gives it to those of one destination, interface or
    user: `ip route replace PREFIX via GATEWAY congctl NAME`.

    With --remember, each connection saves what arrives per round trip by the network of its peer, and a later one to
    the same network begins with half of that (Careful Resume, RFC 9959). A new version of a name keeps the memory.

    [bold]Examples[/bold]

      perigee cc load hybla --set rtt0="50 ms"
      perigee cc load cubic --as cubic_nohs --set slow_start=classic
      perigee cc load ./mycc.c --default
      perigee cc load cubic --as cubic_cr --set slow_start=careful --remember
    """
    pairs = []
    for setting in settings or ():
        key, separator, value = setting.partition("=")
        if not separator:
            raise InputError(f'--set {setting}: write KEY=VALUE, for instance --set rtt0="25 ms"')
        pairs.append((key.strip(), value.strip()))
    paths = kernel.Prefixes(v4, v6) if remember else None
    loaded = kernel.load(what, pairs, name=name, make_default=default, remember=paths)
    if loaded.warnings:
        say(loaded.warnings.rstrip())
    parameters = f" ({loaded.parameters})" if loaded.parameters else ""
    how = "replaced the earlier version" if loaded.replaced else "loaded"
    say(f"{loaded.algorithm}{parameters} {how}; sockets select it as {loaded.name}")
    if loaded.sockets_on_earlier:
        say(f"{_count(loaded.sockets_on_earlier, 'socket')} with the earlier version until closed")
    if loaded.default_before:
        say(f"it is the machine's default; before, that was {loaded.default_before}")
    result(loaded.name)


@app.command()
def unload(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of `perigee cc status`, or the argument of `perigee cc load`."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Unload all loaded algorithms.")] = False,
    wait: Annotated[
        float | None,
        typer.Option("--wait", metavar="SECONDS", min=0, help="Wait this long for sockets that use it to close."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Unload it although sockets use it; they keep it until they close.")
    ] = False,
) -> None:
    """Unload a congestion control from the kernel, and restore the previous default.

    Refuses while sockets use it, and lists them. With --wait, the default ends first, so that no new socket gets it
    meanwhile. A route with it is left, and has the default again.

    [bold]Examples[/bold]

      perigee cc unload hybla
      perigee cc unload hybla --wait 60
      perigee cc unload --all --force
    """
    if everything == (name is not None):
        raise InputError("give either the NAME to unload, or --all")
    if force and wait is not None:
        raise InputError("give either --wait or --force")
    names = [entry["name"] for entry in kernel.status()["loaded"]] if name is None else [name]
    failed: PerigeeError | None = None
    for one in names:
        try:
            _say_unloaded(kernel.unload(one, wait_s=wait, force=force))
        except PerigeeError as error:
            # With --all, what can be unloaded is.
            if failed:
                say(str(failed))
            failed = error
    if failed:
        raise failed
    if not names:
        say("nothing is loaded")


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False) -> None:
    """Show the loaded algorithms, the sockets that use them, and the state of each.

    [bold]Examples[/bold]

      perigee cc status
      perigee cc status --json
    """
    found = kernel.status()
    if as_json:
        result(json.dumps(found, indent=2))
        return
    if not found["loaded"]:
        result("nothing is loaded")
    for entry in found["loaded"]:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["loaded_s"]))
        parameters = f" with {entry['parameters']}" if entry["parameters"] else ""
        default = ", the machine's default" if entry["is_default"] else ""
        result(f"{entry['name']}: {entry['algorithm']}{parameters}, {entry['origin']}, loaded {when}{default}")
        _show_sockets(entry["sockets"], "no socket uses it")
    if found["detached"]:
        result("unloaded, and still used:")
        _show_sockets(found["detached"], "")
    result(f"default: {found['default']}; the kernel also has {', '.join(found['others'])}")
    if found["unseen_processes"]:
        say(
            f"note: sockets in the network namespaces of {_count(found['unseen_processes'], 'process', 'es')} are not "
            "shown: this process may not enter them (permission denied)"
        )


def _show_sockets(sockets: list[dict[str, Any]], none: str) -> None:
    if not sockets:
        result(f"  {none}")
        return
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("Socket", "Process", "Namespace"):
        table.add_column(heading)
    for heading in ("cwnd", "ssthresh", "RTT ms", "pacing Mbit/s", "delivery Mbit/s", "retransmitted"):
        table.add_column(heading, justify="right")
    for socket in sockets:
        process = f"{socket['process']} ({socket['pid']})" if socket["pid"] else "-"
        table.add_row(
            f"{socket['local']} -> {socket['peer']} {socket['state']}",
            escape(process),
            escape(socket["namespace"] or "-"),
            str(socket["cwnd_packets"]),
            "-" if socket["ssthresh_packets"] is None else str(socket["ssthresh_packets"]),
            number(socket["srtt_us"] / 1e3, 2),
            "-" if socket["pacing_bps"] is None else number(socket["pacing_bps"] / 1e6, 1),
            number(socket["delivery_bps"] / 1e6, 1),
            str(socket["retransmissions"]),
        )
    out_console.print(table)


def _say_unloaded(done: Unloaded) -> None:
    say(f"{done.name} unloaded")
    if done.default:
        say(f"the machine's default is {done.default} again")
    for namespace, default in done.namespaces:
        say(f"the default of namespace {namespace} is {default} again")
    if done.sockets_left:
        say(f"{_count(done.sockets_left, 'socket')} with it until closed (`perigee cc status`)")


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"


def _in_the_kernel() -> tuple[list[dict[str, Any]], list[str]]:
    """Return the loaded algorithms, and the kernel's own names; nothing, with a note, where access is denied."""
    try:
        found = kernel.status()
    except PerigeeError as error:
        say(f"the algorithms in the kernel are not shown: {error}")
        return [], []
    return found["loaded"], found["others"]
