# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The Debian packages: what they have and need; installed into a folder and removed, they leave nothing."""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from conftest import tool

if os.geteuid() or not shutil.which("dpkg-deb"):
    pytest.skip("needs root, and dpkg-deb", allow_module_level=True)

EXPECTED = {
    "opt/perigee/bin/perigee",
    "opt/perigee/bin/python3",
    "opt/perigee/pyvenv.cfg",
    "usr/bin/perigee",
    "usr/lib/systemd/system/perigee-agent.service",
    "usr/lib/systemd/system/perigee-cc@.service",
    "usr/share/bash-completion/completions/perigee",
    "usr/share/doc/perigee/changelog.gz",
    "usr/share/doc/perigee/copyright",
    "usr/share/man/man1/perigee.1.gz",
}
OF_THE_PROXY = {
    "usr/lib/systemd/system/perigee-pep.service",
    "usr/lib/sysusers.d/perigee-pep.conf",
    "usr/sbin/perigee-pep",
    "usr/share/doc/perigee-pep/changelog.gz",
    "usr/share/doc/perigee-pep/configuration.md.gz",
    "usr/share/doc/perigee-pep/copyright",
    "usr/share/doc/perigee-pep/examples/pep.toml",
    "usr/share/man/man8/perigee-pep.8.gz",
    "usr/share/perigee-pep/grafana-perigee-pep.json",
    "usr/share/perigee-pep/prometheus-perigee-pep.yml",
}
HELP = """\
perigee-pep: a proxy - of a kind

  perigee-pep run CONFIG.toml       run the service
  perigee-pep doctor CONFIG.toml --to HOST:PORT/PATH
                                    fetch a file

Options of doctor:

  --json            print 'one' object
"""


def files(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for top in ("opt", "usr")
        for path in (root / top).rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package around a virtual environment that only looks like a real one."""
    deb = tool("deb")
    tree = tmp_path / "tree"
    home = tree / "opt/perigee"
    for name, text in {
        "bin/perigee": "#!/build/opt/perigee/bin/python\nprint('there')\n",
        "bin/perigee-pep": "of the wheel, and of the other package",
        "bin/f2py": "#!/build/opt/perigee/bin/python\n",
        "lib/core.so": "GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.2.5\0",
        "pyvenv.cfg": "home = /usr/bin\ncommand = /usr/bin/python3 -m venv /build/opt/perigee\n",
        "share/man/man1/perigee.1": ".TH PERIGEE 1\n",
        "share/man/man1/ttx.1": ".TH TTX 1\n",
        "share/bash-completion/completions/perigee": "complete perigee\n",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / "bin/perigee").chmod(0o755)
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    deb.assemble(tree, (3, 11))
    made = deb.build(tree, tmp_path)
    assert isinstance(made, Path)
    return made


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of a program that only looks like the proxy."""
    deb = tool("deb")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n[ $1 = --help ] && cat <<'END' || echo perigee-pep 0.1.0\n{HELP}END\n")
    monkeypatch.setattr(deb, "is_static", lambda content: content == program.read_bytes())
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "strip").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    deb.assemble_proxy(tmp_path / "proxy", program)
    made = deb.build(tmp_path / "proxy", tmp_path)
    assert isinstance(made, Path)
    return made


@pytest.fixture
def dpkg(tmp_path: Path) -> list[str]:
    """The command `dpkg` for a root that has no packages, the folder `root`."""
    root = tmp_path / "root"
    for folder in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    log = f"--log={tmp_path / 'dpkg.log'}"
    return ["/usr/bin/dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless", log]


def test_a_package_has_the_command_its_pages_units_and_what_it_needs(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = subprocess.run(
        ["/usr/bin/dpkg-deb", "--field", package], capture_output=True, text=True, check=True
    ).stdout
    assert "Depends: python3 (>= 3.11), python3 (<< 3.12), libc6 (>= 2.34), libelf1, libgcc-s1, zlib1g\n" in fields
    assert "Maintainer: The Perigee authors\n" in fields
    root = tmp_path / "unpacked"
    subprocess.run(["/usr/bin/dpkg-deb", "--extract", package, root], check=True)
    assert files(root) == EXPECTED | {"opt/perigee/lib/core.so"}
    assert (root / "usr/bin/perigee").readlink() == Path("/opt/perigee/bin/perigee")
    assert (root / "opt/perigee/bin/perigee").read_text() == "#!/opt/perigee/bin/python3\nprint('there')\n"
    assert (root / "opt/perigee/pyvenv.cfg").read_text() == "home = /usr/bin\n"
    assert gzip.decompress((root / "usr/share/man/man1/perigee.1.gz").read_bytes()) == b".TH PERIGEE 1\n"
    owners = {path.lstat().st_uid for path in root.rglob("*")}
    assert owners == {0}
    monkeypatch.setenv("DEBEMAIL", "ops@example.org")
    assert tool("deb").maintainer() == "The Perigee authors <ops@example.org>"


def test_the_package_of_the_proxy_has_its_unit_manual_example_and_dashboards(proxy: Path, tmp_path: Path) -> None:
    root = tmp_path / "unpacked"
    subprocess.run(["/usr/bin/dpkg-deb", "--extract", proxy, root], check=True)
    assert files(root) == OF_THE_PROXY
    assert "ExecStart=/usr/sbin/perigee-pep run" in (root / "usr/lib/systemd/system/perigee-pep.service").read_text()
    assert "[allow]" in (root / "usr/share/doc/perigee-pep/examples/pep.toml").read_text()
    page = gzip.decompress((root / "usr/share/man/man8/perigee-pep.8.gz").read_bytes()).decode()
    assert (
        "\nperigee\\-pep \\- a proxy \\- of a kind\n.SH COMMANDS\n"
        ".TP\n.B perigee\\-pep run CONFIG.toml\nrun the service\n" in page
    )
    assert ".B perigee\\-pep doctor CONFIG.toml \\-\\-to HOST:PORT/PATH\nfetch a file\n.SH OPTIONS OF DOCTOR\n" in page
    assert ".B \\-\\-json\nprint \\(aqone\\(aq object\n.SH FILES\n" in page
    fields = subprocess.run(["/usr/bin/dpkg-deb", "--field", proxy], capture_output=True, text=True, check=True).stdout
    assert "Package: perigee-pep\n" in fields
    assert "Depends" not in fields


def test_a_newer_package_upgrades_the_service_that_runs_and_installs_where_that_fails(
    proxy: Path, tmp_path: Path
) -> None:
    subprocess.run(["/usr/bin/dpkg-deb", "--control", proxy, tmp_path / "control"], check=True)
    called = tmp_path / "called"
    stubs = tmp_path / "stubs"
    stubs.mkdir()

    def installed(*arguments: str, runs: bool, is_upgraded: bool = True) -> tuple[str, str]:
        """Calls and words of the installation, on a host where the service runs or not."""
        called.write_text("")
        upgrade = f"echo $* >> {called}\n{str(is_upgraded).lower()}"
        for name, script in {
            "systemctl": f"[ $1 = daemon-reload ] || {str(runs).lower()}",
            "systemd-sysusers": "true",
            "perigee-pep": upgrade,
        }.items():
            (stubs / name).write_text(f"#!/bin/sh\n{script}\n")
            (stubs / name).chmod(0o755)
        environment = {"PATH": f"{stubs}:{os.environ['PATH']}"}
        postinst = [str(tmp_path / "control/postinst"), *arguments]
        done = subprocess.run(postinst, env=environment, capture_output=True, text=True, check=True)
        return called.read_text(), done.stderr

    assert installed("configure", "0.1", runs=True) == ("upgrade /etc/perigee/pep.toml\n", "")
    assert installed("configure", "", runs=True)[0] == installed("configure", "0.1", runs=False)[0] == ""
    assert "restart the service" in installed("configure", "0.1", runs=True, is_upgraded=False)[1]


def test_both_packages_install_side_by_side_and_leave_nothing(
    package: Path, proxy: Path, dpkg: list[str], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for one in (package, proxy):
        subprocess.run([*dpkg, "--install", one], check=True, capture_output=True)
    assert files(root) == EXPECTED | OF_THE_PROXY | {"opt/perigee/lib/core.so"}
    compiled = root / "opt/perigee/lib/__pycache__/one.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.touch()
    subprocess.run([*dpkg, "--remove", "perigee"], check=True, capture_output=True)
    assert files(root) == OF_THE_PROXY
    assert not (root / "opt/perigee/bin").exists()
    subprocess.run([*dpkg, "--remove", "perigee-pep"], check=True, capture_output=True)
    assert files(root) == set()


def test_libraries_lose_tests_sources_and_what_nothing_uses_and_perigee_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"perigee/data/reno.c", "perigee/data/tests/a.py", "numpy/core.py", "numpy.libs/blas.so.3"}
    kept |= {"kiwisolver/_cext.cpython-311.so", "markupsafe/_speedups.cpython-311.so"}
    lost = {"numpy/tests/test_a.py", "numpy/tests/data/tests/b.py", "fontTools/a.c", "numpy/include/api.h"}
    for name in kept | lost:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    deb, stripped = tool("deb"), []
    monkeypatch.setattr(deb, "run", lambda *command: stripped.append(str(command[-1].relative_to(tmp_path))))
    deb.slim(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == kept
    assert sorted(stripped) == ["kiwisolver/_cext.cpython-311.so", "markupsafe/_speedups.cpython-311.so"]


def test_only_a_program_without_a_loader_is_static() -> None:
    def program(kind: int) -> bytes:
        head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
        return head + struct.pack("<I52x", kind)

    deb = tool("deb")
    assert deb.is_static(program(1))
    assert not deb.is_static(program(3))
    assert not deb.is_static(b"#!/bin/sh\n")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--wheel", "none.whl"], "none.whl: there is no such file; make it with `make wheel` or"),
        (["--wheel", "perigee_lab-1.whl"], "perigee_lab-1.whl: is no wheel of Perigee"),
        (["--proxy", "perigee_lab-1.whl"], "perigee_lab-1.whl: is no static program; make one with: tools/static.sh"),
    ],
)
def test_what_no_package_is_made_of_is_refused_in_one_line(
    given: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("perigee_lab-1.whl").write_text("no archive")
    monkeypatch.setattr("sys.argv", ["deb.py", *given, "--out", str(tmp_path / "out")])
    assert tool("deb").main() == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"deb.py: {said}")


@pytest.mark.skipif("PERIGEE_DEB" not in os.environ, reason="PERIGEE_DEB names no package to install on this machine")
def test_the_package_named_by_the_environment_installs_starts_and_goes() -> None:
    subprocess.run(["/usr/bin/dpkg", "--install", os.environ["PERIGEE_DEB"]], check=True)
    try:
        done = subprocess.run(["/usr/bin/perigee", "studies"], capture_output=True, text=True, check=True)
        assert "claypool-2021" in done.stdout
    finally:
        subprocess.run(["/usr/bin/dpkg", "--purge", "perigee"], check=True)
    assert not Path("/opt/perigee").exists()
