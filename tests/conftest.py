# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Fixtures common to tests: results of the synthetic engine, and the command line as a user starts it."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib.util
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, AnyStr

import pytest
from hypothesis import settings

from forked import MODULE, SKETCHES, Forked
from perigee.__main__ import OBJECTS_PER_COLLECTION
from perigee.api.study import Study
from perigee.cc.kernel import load, status, unload
from perigee.core import native
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.measuring.server import Limits, serve
from perigee.places import find_study
from perigee.report import svg
from sketches import sketched
from study_text import flow, link
from synthetic import SyntheticEngine

if TYPE_CHECKING:
    from types import ModuleType

    from selenium.webdriver import Chrome

    from browsing import Browser
    from firefox import Firefox
    from perigee.laboratory.api.visit import Laboratory

# The objects of a report are many, and none is garbage: with Python's own number collections are a sixth of its time.
gc.set_threshold(OBJECTS_PER_COLLECTION)

settings.register_profile("here", deadline=None, print_blob=True)
settings.load_profile("here")

ROOT = Path(__file__).resolve().parent.parent
KERNEL = Path("/sys/kernel/btf")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
LONG_PAGES = ("evaluate-and-attack.md", "many-runs.md", "settings-for-a-link.md", "write-a-congestion-control.md")
"""Pages of the guide whose commands take long: `make torture` carries them out, other runs read them."""
SCRIPT_S = 60.0
"""Seconds that a script of a test may take in a browser."""
NARROW = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
Perigee = Callable[..., subprocess.CompletedProcess[str]]
Once = Callable[[str, Callable[[Path], object]], Path]
SMALL_STUDY = (
    'name = "small"\nnodes = ["a", "b"]\n'
    + link("l", "a b", rate="10 Mbit/s", delay="1 ms")
    + flow("f", "a b", size="10 kB")
)
"""A study of one short transfer."""


@pytest.fixture(autouse=True)
def sketches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the drawings out of reports, here and in forked commands, but for tests that are marked `drawn`."""
    if request.node.get_closest_marker("drawn") is None:
        monkeypatch.setenv(SKETCHES, "1")
        monkeypatch.setattr(svg, "draw", sketched)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study file for the synthetic engine, which reads nothing of it but the folder's name."""
    path = tmp_path / "invented" / "study.toml"
    path.parent.mkdir()
    path.write_text('name = "invented"\n')
    return path


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Return the folder of a name, for reading only; the first to ask for it makes it.

    The processes of a run of all tests share it. A module's fixture, which its tests may need in several of them, would
    be carried out in each.
    """
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "once"
    folder.mkdir(exist_ok=True)

    def made(name: str, make: Callable[[Path], object]) -> Path:
        out, done = folder / name, folder / f"{name}.done"
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                make(out)
                done.touch()
        return out

    return made


@pytest.fixture
def results(study: Path, tmp_path: Path, once: Once) -> Path:
    """Finished results of three rounds of four algorithms, for the test to change."""
    job = partial(Job, find_study(str(study)), SyntheticEngine(3), workers=2)
    made = once("synthetic", lambda out: carry_out(job(out=out)))
    return shutil.copytree(made, tmp_path / "results")


@pytest.fixture(scope="session")
def reduced(once: Once) -> Callable[[str], Path]:
    """Results of a study that comes with perigee at its reduced size, by its name."""
    return lambda name: once(f"reduced-{name}", lambda out: Study.load(name).run(out=out, reduced=True))


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Laboratory, dict[str, str]]]:
    """A laboratory, and the token of each role."""
    from perigee.laboratory import server

    monkeypatch.chdir(tmp_path)
    found = server.opened(tmp_path)
    yield found
    found[0].queue.close()
    found[0].catalogue.close()


@pytest.fixture
def laboratory(opened: tuple[Laboratory, dict[str, str]]) -> Laboratory:
    """A laboratory."""
    return opened[0]


@pytest.fixture
def stranger(laboratory: Laboratory) -> Iterator[Browser]:
    """A browser without a session."""
    from browsing import Browser

    with contextlib.closing(Browser(laboratory)) as client:
        yield client


@pytest.fixture
def browser(stranger: Browser, opened: tuple[Laboratory, dict[str, str]]) -> Browser:
    """A browser of somebody who may run studies."""
    assert stranger.get(f"/enter?token={opened[1]['run']}").headers["location"] == "/"
    return stranger


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    """The process that commands are forked from."""
    process = Forked(environment())
    yield process
    process.close()


@pytest.fixture
def perigee(tmp_path: Path, forked: Forked) -> Perigee:
    """The command `perigee` in a process of its own, started in an empty folder."""

    def start(*arguments: object, cwd: Path = tmp_path, synthetic: bool = False) -> subprocess.CompletedProcess[str]:
        given = [str(argument) for argument in arguments]
        program = str(ROOT / "tests" / "synthetic.py") if synthetic else MODULE
        env = environment()
        if forked.suits(env):
            return forked.run([program, *given], cwd, env, timeout=300)
        options = [program] if synthetic else ["-m", program]
        return subprocess.run(
            [sys.executable, *options, *given],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return start


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A Chromium or Chrome without a window: its start takes two seconds of the processor, so that tests share it."""
    if importlib.util.find_spec("selenium") is None or CHROMIUM is None or DRIVER is None:
        pytest.skip("selenium, chromium or chromium-driver is not installed")
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    folder = tmp_path_factory.mktemp("chromium")
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("headless=new", "disable-dev-shm-usage", "disable-gpu", f"user-data-dir={folder}"):
        options.add_argument(f"--{argument}")
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SE_OFFLINE", "true")
        try:
            browser = Chrome(options, ChromeService(DRIVER))
        except WebDriverException as error:
            pytest.skip(f"Chromium does not start here: {error.msg}")
    yield browser
    browser.quit()


@pytest.fixture
def chrome(chromium: Chrome) -> Iterator[Chrome]:
    """A browser without a window as one that was just started, as wide as a telephone."""
    logged: Any = chromium
    chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", NARROW)
    chromium.set_script_timeout(SCRIPT_S)
    logged.get_log("browser")
    yield chromium
    chromium.get("about:blank")


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    """Debian's Firefox without a window."""
    from firefox import FIREFOX, started

    if not FIREFOX.exists() or importlib.util.find_spec("websocket") is None:
        pytest.skip("firefox-esr or websocket-client is not installed")
    profile = tmp_path / "firefox"
    profile.mkdir()
    with started(profile) as browser:
        yield browser


@pytest.fixture(params=["chrome", "firefox"])
def either(request: pytest.FixtureRequest, page: str) -> Chrome | Firefox:
    """Each of the two browsers."""
    browser: Chrome | Firefox = request.getfixturevalue(request.param)
    return browser


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the page that simulates in its own tab, in a folder."""
    pytest.importorskip("starlette", reason="starlette is not installed")
    pytest.importorskip("httpx", reason="httpx is not installed")
    from browsing import page_in_a_tab

    return page_in_a_tab(tmp_path_factory.mktemp("page")).as_uri()


def tool(name: str) -> ModuleType:
    """A program of tools/ as a module."""
    return program(ROOT / "tools" / f"{name}.py")


def program(path: Path) -> ModuleType:
    """A program outside the package as a module; it may import its neighbours."""
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def environment() -> dict[str, str]:
    """The environment of a process under test: the package that the tests have imported, and a wide terminal."""
    paths = [str(Path(native.__file__).parent.parent), str(ROOT / "tests")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200", "NO_COLOR": "1"}


@contextlib.contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that writes text, with the options of `subprocess.Popen`; killed after the block if it still runs."""
    with subprocess.Popen(command, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(stream: IO[AnyStr] | None, timeout_s: float = 300.0) -> AnyStr:
    """Return the next line of a process's output; an empty one at its end."""
    assert stream is not None, "the process was started without this pipe"
    lines: queue.SimpleQueue[AnyStr] = queue.SimpleQueue()
    threading.Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
    try:
        return lines.get(timeout=timeout_s)
    except queue.Empty:
        raise AssertionError(f"the process wrote no line within {timeout_s:g} s") from None


def own(suffix: str) -> str:
    """A name that no other test has, of at most 15 characters."""
    return f"p{os.getpid()}{suffix}"


@pytest.fixture
def machine() -> Iterator[None]:
    """The right to change the machine, alone; what a test loaded is unloaded after it."""
    if not KERNEL.exists():
        pytest.skip(f"this kernel has no {KERNEL}")
    # The Rust tests lock it too.
    lock = os.open(KERNEL, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        had_bpf_fs = os.path.ismount("/sys/fs/bpf")
        try:
            load("reno", [], name=own("0"))
        except InputError as error:
            pytest.skip(str(error))
        unload(own("0"))
        yield
        for entry in status()["loaded"]:
            if entry["name"].startswith(own("")):
                unload(entry["name"], force=True)
        if not had_bpf_fs:
            subprocess.run(["/usr/bin/umount", "/sys/fs/bpf"], check=False)
    finally:
        os.close(lock)


def needs_tun() -> None:
    """Skip the test where no emulated link can be made."""
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists():
        pytest.skip("emulated links need root and /dev/net/tun")


def pep_program() -> Path:
    """The program of the proxy as it was built last."""
    built = [ROOT / "target" / kind / "perigee-pep" for kind in ("release", "local", "debug")]
    there = [path for path in built if path.exists()]
    if not there:
        pytest.skip("perigee-pep is not built")
    return max(there, key=lambda path: path.stat().st_mtime)


def recording() -> tuple[Path, Path]:
    """The rates and the delays of a recorded link."""
    folder = Path(os.environ.get("PERIGEE_SHARED", ROOT.parent / "shared")) / "traces" / "leocc"
    if not folder.is_dir():
        pytest.skip(f"{folder}: no recorded data; set PERIGEE_SHARED to the folder of recorded data")
    return folder / "bw_example.txt", folder / "delay_example.txt"


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of the loopback device that nobody has, of TCP unless another kind is given."""
    with socket.socket(socket.AF_INET, kind) as probing:
        probing.bind(("127.0.0.1", 0))
        port: int = probing.getsockname()[1]
        return port


@contextlib.contextmanager
def answering(token: bytes, limits: Limits, bind: str = "127.0.0.1", port: int | None = None) -> Iterator[int]:
    """A server of probes in a thread, and its port."""
    chosen, ready, done = port or free_port(socket.SOCK_DGRAM), threading.Event(), threading.Event()

    def go_on() -> bool:
        ready.set()
        return not done.is_set()

    thread = threading.Thread(target=serve, args=(bind, chosen, token, limits, go_on))
    thread.start()
    try:
        assert ready.wait(300)
        yield chosen
    finally:
        done.set()
        thread.join(300)
    assert not thread.is_alive()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of long tests and of the adversary's."""
    parser.addoption("--long", action="store_true", help="the tests marked `long` too")
    parser.addoption("--torture", type=float, default=0.0, metavar="MINUTES", help="minutes for tests/adversary")
    parser.addoption("--torture-seed", type=int, metavar="SEED", help="repeat one attempt of a test of tests/adversary")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave long tests out unless they are asked for."""
    if config.getoption("--long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
