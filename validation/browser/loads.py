# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Loads the same pages in Chromium behind an emulated link and in the simulator, and writes a page of docs/models."""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from perigee.store.results import Results

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "models" / "validation-browser.md"
PERIGEE = (sys.executable, "-m", "perigee")

KB = 1000
PAGES = {
    "small": (18 * KB, *[20 * KB] * 12),
    "many": (18 * KB, *[12 * KB] * 60),
    "heavy": (60 * KB, *[150 * KB] * 12),
}
"""Bytes of the document and of what it names."""

LINKS = {
    "leo": ("100 Mbit/s", "20 ms", "500 kB"),
    "geo": ("20 Mbit/s", "300 ms", "1.5 MB"),
}
"""Rate, one-way delay and queue, the same in both directions."""

LOADS = 5
"""Loads of each page over each link."""

REQUEST_B = 400
"""Bytes of a request of Chromium, about."""

GATEWAY = "100.64.0.1"
"""This host, as `perigee exec` has it at the near end of the link."""

PATIENCE_S = 60.0
TRIES = 3
TIMING = re.compile(r"<title>load (\d+(?:\.\d+)?) connections (\d+)</title>")

STUDY = """
name = "browser"
nodes = ["server", "browser"]
[[links]]
name = "satellite"
between = ["server", "browser"]
rate = "{rate}"
delay = "{delay}"
queue = "{queue}"
[[flows]]
name = "load"
kind = "pages"
from = "server"
to = "browser"
protocol = "http/1.1"
tls = 0
request = "{request} B"
responses = [{sizes}]
duration = "1 min"
pause = "2 min"
"""


@dataclass(frozen=True)
class Cell:
    """One page over one link.

    Attributes:
        link: name of the link.
        page: name of the page.
        measured_ms: load times of Chromium, one per load.
        model_ms: load time of the model.
    """

    link: str
    page: str
    measured_ms: Sequence[float]
    model_ms: float


class Server(BaseHTTPRequestHandler):
    """Documents `/PAGE`, and what they name, `/PAGE/NUMBER`."""

    protocol_version = "HTTP/1.1"
    wbufsize: ClassVar[int] = 1 << 20
    pages: ClassVar[Mapping[str, Sequence[int]]] = {}

    def do_GET(self) -> None:
        """Answer with as many bytes as the page says, headers included."""
        page, _, number = self.path.strip("/").partition("/")
        sizes = self.pages.get(page)
        if sizes is None or not (number or "0").isdecimal() or int(number or 0) >= len(sizes):
            self.send_error(404)
            return
        size = sizes[int(number or 0)]
        kind = "image/svg+xml" if number else "text/html"
        body = _image() if number else _document(page, len(sizes))
        self.send_response_only(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", f"{size - HEADER_B:06d}")
        self.end_headers()
        self.wfile.write(body.ljust(size - HEADER_B))

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


HEADER_B = 93
"""Bytes of the headers of a response, about."""


def _document(page: str, count: int) -> bytes:
    images = "".join(f'<img src="/{page}/{number}">' for number in range(1, count))
    timing = (
        "const t=performance.timing;document.title='load '+(t.loadEventStart-t.fetchStart)"
        "+' connections '+performance.getEntriesByType('resource').filter(r=>r.connectStart<r.connectEnd).length"
    )
    return f'<!doctype html><title>?</title><body onload="{timing}">{images}</body>'.encode()


def _image() -> bytes:
    return b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'


@contextmanager
def server(pages: Mapping[str, Sequence[int]]) -> Iterator[int]:
    """Serve pages on all addresses of this host; gives the port."""
    handler = type("Handler", (Server,), {"pages": pages})
    # The near end of the link has its address while `perigee exec` runs only.
    with ThreadingHTTPServer(("0.0.0.0", 0), handler) as running:  # noqa: S104
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        try:
            yield running.server_address[1]
        finally:
            running.shutdown()
            thread.join()


def missing() -> str | None:
    """Return what this comparison needs and this machine lacks; none: nothing."""
    if shutil.which("chromium") is None:
        return "there is no `chromium` here; `apt-get install chromium` brings it"
    if os.geteuid() != 0:
        return "it needs root, for `perigee exec`"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun here"
    return None


def measured_ms(link: tuple[str, str, str], page: str, port: int) -> float:
    """Return the time of one load in Chromium behind a link.

    Raises:
        RuntimeError: Chromium did not load the page.
    """
    rate, delay, queue = link
    setting = [
        word
        for way in ("down", "up")
        for key, value in (("rate", rate), ("delay", delay), ("queue", queue))
        for word in ("--set", f"{way}.{key}={value}")
    ]
    with tempfile.TemporaryDirectory(prefix="perigee-browser-") as profile:
        browser = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-component-update", "--no-first-run", f"--user-data-dir={profile}", "--dump-dom",
            f"http://{GATEWAY}:{port}/{page}",
        ]  # fmt: skip
        command = [*PERIGEE, "exec", "--quiet", "--link", "geo", *setting, "--drain", "1 s", "--", *browser]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            try:
                out, err = running.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                # It ends the browser and takes the link away.
                running.terminate()
                out, err = running.communicate()
    found = TIMING.search(out)
    if found is None:
        raise RuntimeError(f"Chromium did not load the page: exit {running.returncode}\n{err[-2000:]}")
    return float(found[1])


def repeated(load: Callable[[], float]) -> float:
    """Return what a load takes; one that fails is tried again, twice at the most: a browser may hang as it starts."""
    for _ in range(TRIES - 1):
        try:
            return load()
        except RuntimeError as error:
            print(f"again: {error}", file=sys.stderr)
    return load()


def model_ms(link: tuple[str, str, str], sizes: Sequence[int]) -> float:
    """Return the load time of a page in the simulator."""
    rate, delay, queue = link
    text = STUDY.format(
        rate=rate, delay=delay, queue=queue, request=REQUEST_B, sizes=", ".join(f'"{size} B"' for size in sizes)
    )
    with tempfile.TemporaryDirectory(prefix="perigee-browser-") as name:
        folder = Path(name)
        (folder / "study.toml").write_text(text, encoding="utf-8")
        command = [*PERIGEE, "run", str(folder / "study.toml"), "--out", str(folder / "out")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
        return float(Results(folder / "out").table("pages")["load_ms"][0])


def compared(loads: int) -> list[Cell]:
    """Carry everything out, with progress on standard error."""
    cells = []
    with server(PAGES) as port:
        for link, setting in LINKS.items():
            for page, sizes in PAGES.items():
                print(f"{link}, {page}: {loads} loads", file=sys.stderr, flush=True)
                load = partial(measured_ms, setting, page, port)
                times = [repeated(load) for _ in range(loads)]
                cells.append(Cell(link, page, times, model_ms(setting, sizes)))
    return cells


def written(cells: Sequence[Cell], version: str) -> str:
    """Return the page of docs/models; `version` is the browser's."""
    rows = []
    for cell in cells:
        median = statistics.median(cell.measured_ms)
        rows.append(
            f"| {cell.link} | {cell.page} | {median:.0f} | {min(cell.measured_ms):.0f} to {max(cell.measured_ms):.0f} "
            f"| {cell.model_ms:.0f} | {100 * (cell.model_ms / median - 1):+.1f} % |"
        )
    links = "; ".join(
        f"`{name}`: {rate}, {delay} one way, queue {queue}" for name, (rate, delay, queue) in LINKS.items()
    )
    pages = "; ".join(
        f"`{name}`: a document of {sizes[0] / KB:g} kB and {len(sizes) - 1} images of {sizes[1] / KB:g} kB"
        for name, sizes in PAGES.items()
    )
    return TEXT.format(
        rows="\n".join(rows),
        links=links,
        pages=pages,
        loads=len(cells[0].measured_ms),
        version=version,
        kernel=os.uname().release,
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    )


TEXT = """# Page loads beside a real browser

Written by `make validate-browser` on {date}: {version}, Linux {kernel}. The method is in
[validation/browser](../../validation/browser/README.md).

Links: {links}. Pages: {pages}. HTTP/1.1 without TLS, one server.
Chromium has {loads} loads of each, each by a browser of its own.

| link | page | Chromium, median (ms) | smallest to largest (ms) | model (ms) | model beside the median |
|---|---|---|---|---|---|
{rows}

Chromium's time includes what it computes: parsing, scheduling of requests, and the start of its network process. The
model has none of that, so it is the shorter one where computing weighs more than the link. Chromium may also open a
connection before it has a request for it, which the model does not. What makes up each difference was not traced.
"""


def main() -> int:
    """Write the page; say so and do nothing where something is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=LOADS, help="loads of each page over each link")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args()
    if reason := missing():
        print(f"validate-browser: skipped: {reason}")
        return 0
    version = subprocess.run(["chromium", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    options.page.write_text(written(compared(options.loads), version), encoding="utf-8")
    print(options.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
