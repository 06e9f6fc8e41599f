# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Authors' congestion controls in emulated flows over QUIC: as the built-in ones, in processes without rights."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee, needs_tun
from perigee.engines.emu.own_flows import joined
from perigee.engines.plan.contract import Output
from perigee.engines.plan.own_code import check_own
from perigee.errors import RunError
from perigee.places import headers
from perigee.store.schema import blank_row, empty_table
from perigee.store.streams import frame_of, stream_of
from study_text import flow, link

HEAD = """
name = "own"
nodes = ["server", "client"]
[measure]
series = "500 ms"
states = "changes"
qlog = true
"""
NETWORK = HEAD + link("satellite", "server client", rate="20 Mbit/s", delay="50 ms", queue="10 MB")
SOURCE = """
#include "tcp.h"
#define PARAMETERS(P) P(keep, "1/1024", 512, 1, 1023, "window kept on a loss")
CC_PARAMETERS(PARAMETERS)
TOP
CC_CALLBACK(void, own_init, struct sock *sk) { INIT }
CC_CALLBACK(u32, own_ssthresh, struct sock *sk) { return tcp_reno_ssthresh(sk); }
CC_CALLBACK(void, own_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	LATER
	tcp_reno_cong_avoid(sk, ack, acked);
}
CC_CALLBACK(u32, own_undo_cwnd, struct sock *sk) { return tcp_reno_undo_cwnd(sk); }
CC_REGISTER(own, "Own", PARAMETERS, .init = OP(own_init), .ssthresh = OP(own_ssthresh),
	.cong_avoid = OP(own_cong_avoid), .undo_cwnd = OP(own_undo_cwnd))
"""
LOOP = 'for (;;) __asm__ volatile("");'


def over_quic(name: str, cc: str, **keys: object) -> str:
    return flow(name, "server client", transport="quic", cc=cc, **keys)


def write(folder: Path, *, top: str = "", init: str = "", later: str = "") -> None:
    """Write an algorithm with these statements in it, and a study of one flow that has it."""
    text = SOURCE.replace("TOP", top).replace("INIT", init).replace("LATER", later)
    (folder / "own.c").write_text(text, encoding="utf-8")
    (folder / "own.toml").write_text(NETWORK + over_quic("download", "./own.c", size="500 kB"), encoding="utf-8")


def test_a_file_gives_over_quic_what_the_built_in_algorithm_gives(perigee: Perigee, tmp_path: Path) -> None:
    needs_tun()
    shutil.copy(headers() / "reno.c", tmp_path / "own.c")
    pages = {"kind": "pages", "responses": ["20 kB", "20 kB"], "pause": "200 ms", "duration": "2 s"}
    text = NETWORK + flow("ping", "server client", kind="ping", interval="1 s", repeat=3, packet="100 B")
    for place, (name, cc) in enumerate((("shipped", "reno"), ("own", "./own.c"))):
        text += over_quic(f"{name}-bulk", cc, size="4 MB", start=f"{4 * place} s")
        text += over_quic(f"{name}-pages", cc, start=f"{8 + 3 * place} s", **pages)
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    done = perigee("run", "own.toml", "--engine", "emu", "--out", "results")
    assert done.returncode == 0, done.stderr
    tables = {path.stem: pl.read_parquet(path) for path in (tmp_path / "results").glob("*.parquet")}
    flows = tables["flows"]
    assert flows["completed"].all(), flows
    assert set(flows["cc"]) == {"", "reno", "reno (./own.c)"}
    for kind in ("bulk", "pages"):
        shipped, own = (
            flows.row(by_predicate=pl.col("flow") == f"{who}-{kind}", named=True) for who in ("shipped", "own")
        )
        assert own["received_bytes"] == shipped["received_bytes"]
        assert own["duration_s"] == pytest.approx(shipped["duration_s"], rel=0.03)
    assert own["streams"] == shipped["streams"] > 1
    for table in ("series", "states"):
        assert {"shipped-bulk", "own-bulk"} <= set(tables[table]["flow"])
    assert "ping" in set(tables["series"]["flow"])
    logs = {path.name for path in (tmp_path / "results" / "captures").iterdir()}
    assert {f"run-000000-server-{who}-bulk.sqlog" for who in ("shipped", "own")} <= logs


@pytest.mark.parametrize(
    ("where", "does", "said"),
    [
        ("later", "*(volatile int *)0 = 1;", "crashed: it used memory that is not its own (SIGSEGV)"),
        ("later", LOOP, "had not returned after 0.2 s of processor time (--cc-stall); look for a loop without end"),
        ("top", f"__attribute__((constructor)) static void on_load(void) {{ {LOOP} }}", "while the code was loaded"),
    ],
)
def test_wrong_code_ends_the_run_as_an_error_that_names_it(
    perigee: Perigee, tmp_path: Path, where: str, does: str, said: str
) -> None:
    needs_tun()
    write(tmp_path, **{where: does})
    done = perigee("run", "own.toml", "--engine", "emu", "--cc-stall", "0.2 s", "--out", "results")
    assert done.returncode == 1, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    if where == "later":
        line = 1 + SOURCE.split("LATER")[0].count("\n")
        called = rf"run 0 .*: own.c:{line}: `cong_avoid`, called at [0-9.]+ s for flow `download`, as call"
        assert re.search(called, done.stderr), done.stderr


def test_a_loop_that_holds_its_core_is_ended_before_it_is_looked_at(perigee: Perigee, tmp_path: Path) -> None:
    needs_tun()
    write(tmp_path, later=LOOP)
    done = perigee("run", "own.toml", "--engine", "emu", "--cc-stall", "8 s", "--out", "results")
    assert done.returncode == 1, done.stderr
    # Without real-time priority it is the processor time.
    assert re.search("own.c:[0-9]+: `cong_avoid`, called at .* had not .*; look for a loop without end", done.stderr)
    write(tmp_path, top=f"__attribute__((constructor)) static void on_load(void) {{ {LOOP} }}")
    done = perigee("run", "own.toml", "--engine", "emu", "--cc-stall", "8 s", "--out", "loading")
    assert done.returncode == 1, done.stderr
    assert re.search("own.c: while the code was loaded, .* had not .*; look for a loop without end", done.stderr)


def rows(**changed: object) -> bytes:
    own = blank_row("rtt") | {"run": 3, "flow": "own"}
    return stream_of(pl.DataFrame([own | changed], schema=empty_table("rtt").schema))


def test_results_of_a_process_are_of_its_flow_alone() -> None:
    logs = ("server-own.sqlog", "client-own.12.sqlog")
    check_own(Output({"rtt": rows()}, dict.fromkeys(logs, b"")), 3, "own")
    for table in (rows(run=4), rows(flow="other"), rows(flow=None)):
        with pytest.raises(RunError, match="table rtt came back with rows of another flow than `own`"):
            check_own(Output({"rtt": table}), 3, "own")
    with pytest.raises(RunError, match="table links came back"):
        check_own(Output({"links": stream_of(empty_table("links"))}), 3, "own")
    for log in ("../../server-own.sqlog", "server-other.sqlog", "server-own.pcapng", "x/server-own.sqlog"):
        with pytest.raises(RunError, match="which is none of its own"):
            check_own(Output({}, {log: b""}), 3, "own")


def test_results_of_flows_that_do_not_fit_together_are_an_error() -> None:
    wide = (stream_of(frame_of(rows()).with_columns(more=pl.lit(value))) for value in (1, "text"))
    with pytest.raises(RunError, match="table rtt do not fit together"):
        joined([Output({"rtt": table}) for table in wide])
    with pytest.raises(RunError, match="came back from two flows"):
        joined([Output({}, {"server-own.sqlog": b""})] * 2)


def test_code_is_nobodys_opens_no_file_and_no_socket_and_reaches_no_process(perigee: Perigee, tmp_path: Path) -> None:
    needs_tun()
    declared = (
        "extern int getuid(void), socket(int, int, int), open(const char *, int, ...), creat(const char *, unsigned);"
        "extern int kill(int, int), getppid(void), fork(void); extern void abort(void);"
    )
    reaches = (
        'getuid() == 0 || socket(2, 2, 0) >= 0 || open("/etc/passwd", 0) >= 0 || creat("written", 0600) >= 0 || '
        "kill(getppid(), 0) == 0 || fork() >= 0"
    )
    held = f"if ({reaches}) abort();"
    on_load = f"__attribute__((constructor)) static void on_load(void) {{ {held} }}"
    write(tmp_path, top=declared + on_load, init=held)
    done = perigee("run", "own.toml", "--engine", "emu", "--out", "results")
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(tmp_path / "results" / "flows.parquet")["completed"].all()
