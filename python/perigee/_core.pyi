# SPDX-License-Identifier: GPL-2.0-only OR MIT

from collections.abc import Callable, Sequence
from typing import TypeAlias

class StudyError(ValueError): ...
class SimulationError(RuntimeError): ...
class CcInputError(ValueError): ...

class KernelError(RuntimeError):
    args: tuple[str, str | None]

class CcInUseError(KernelError): ...

Column: TypeAlias = tuple[str, str, bytes | None, bytes | None, bytes]
Table: TypeAlias = tuple[int, list[Column]]

class Plan:
    study: str
    warnings: str
    def __init__(
        self,
        text: str,
        path: str,
        settings: Sequence[str],
        reduced: bool,
        search: Sequence[str],
        headers: str,
        real: bool = False,
    ) -> None: ...
    def sources(self) -> dict[str, bytes]: ...
    def plan_json(self) -> str: ...
    def seed(self, index: int) -> int: ...
    def setup_json(self) -> str: ...
    def live_json(self) -> str: ...
    def run_json(self, index: int) -> str: ...
    def check_emulated(self) -> None: ...
    def outlook_emulated(self, cost_us: tuple[float, float] | None = None) -> str: ...
    def run(
        self, index: int, engine: str, captures: str, progress: Callable[[float], bool]
    ) -> tuple[dict[str, Table], dict[str, bytes]] | None: ...

def observed(flows: str) -> dict[str, Table]: ...
def algorithms() -> str: ...
def algorithm_of(path: str, headers: str) -> tuple[str, str]: ...
def check_of(path: str, headers: str, sequences: int) -> str: ...
def cc_load(
    what: str,
    is_file: bool,
    settings: Sequence[tuple[str, str]],
    name: str | None,
    make_default: bool,
    headers: str,
) -> tuple[str, str]: ...
def cc_unload(name: str, wait_s: float | None, force: bool) -> str: ...
def cc_status() -> str: ...

class CaptureError(ValueError): ...

def analyze_captures(
    sources: Sequence[tuple[str, Sequence[str]]],
    study: str,
    series: str,
    startup: str,
    steady: str,
    most: int,
    progress: Callable[[float], bool],
) -> list[tuple[dict[str, Table], str]] | None: ...

class LinkError(ValueError): ...
class EmulationError(RuntimeError): ...

def run_behind(
    command: Sequence[str],
    down: tuple[str, str],
    up: tuple[str, str],
    settings: Sequence[tuple[str, str]],
    search: Sequence[str],
    seed: int,
    mtu: int,
    begun: Callable[[str, str | None], None],
    go_on: Callable[[], bool],
) -> str: ...
def emu_clean() -> str: ...
def probe_once(
    socket: int,
    token: bytes,
    name: int,
    down: bool,
    rate_bps: int,
    packet: int,
    headers: int,
    time_s: float,
    block_s: float,
    go_on: Callable[[float], bool],
) -> str: ...
def probe_serve(
    socket: int,
    token: bytes,
    secret: bytes,
    rate_bps: int,
    total_bps: int,
    time_s: float,
    clients: int,
    pings: int,
    go_on: Callable[[int, int, str | None], bool],
) -> None: ...

class Pinger:
    def __init__(self, session: int, key: bytes) -> None: ...
    def hello(self) -> bytes: ...
    def open(self, challenge: bytes, first: int) -> bytes: ...
    def ask(self, number: int, size: int) -> bytes: ...
    def read(self, datagram: bytes) -> tuple[str, bytes | int] | None: ...
