# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""C that a page has `perigee serve` compile: compiled as in a checkout, without sight of a file, within limits."""

from __future__ import annotations

import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from browsing import Browser, forms, page_in_a_tab, serving, submit, violations
from conftest import tool
from perigee.cc.skeleton import SKELETON
from perigee.core import native
from perigee.errors import InputError
from perigee.laboratory import own_module
from perigee.laboratory.api.visit import Laboratory
from perigee.laboratory.own_module import Message, Wrong, compiled, messages
from perigee.places import headers

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

web_tables = tool("web_tables")

START = (SKELETON / "mycc.c").read_text()
WORD = "word-of-the-file"
HEAD = '#include "tcp.h"\n'
HIDDEN = "#define H #\nH define CC(a,b) a##b\nH define A CC(as,m)\n"
"""Directives that only a second preprocessor sees."""
LEAST_S = 5.0
"""Seconds for what took minutes where it was searched whole."""
FACTOR = 4
GROWS = "".join(f"#define A{n} {f'A{n - 1} ' * FACTOR}\n" for n in range(1, 30))
WAIT_S = 60.0
CURVE = """
const name = (one) => one.textContent;
const row = [...document.querySelectorAll(".summary tbody tr")].find((one) => one.textContent.includes("mycc"));
const isOver = document.querySelector("main .take button:not(:disabled)") !== null;
return isOver && row ? [...row.cells].map(name).join("|") : null;
"""
COMPILE = """
document.querySelector("details.own").open = true;
const area = document.getElementById("own-text");
area.value = arguments[0];
document.getElementById("own-compile").click();
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the compiler has its folders; it is empty after each test."""
    place = tmp_path / "folders"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def compiler() -> None:
    """Skips where there is no compiler."""
    if why := own_module.unavailable():
        pytest.skip(why)


def wrong(text: str, most_s: float = own_module.MOST_S) -> list[Message]:
    """Return the errors in a text."""
    with pytest.raises(Wrong) as caught:
        compiled(text, "mycc.c", most_s)
    return caught.value.messages


@pytest.mark.usefixtures("compiler")
def test_the_module_is_that_of_the_documented_command(tmp_path: Path, folder: Path) -> None:
    source = tmp_path / "mycc.c"
    # The numbers of lines, which a division that traps has, are all that a module has of its file.
    source.write_text(START)
    assert compiled(START, "mycc.c") == web_tables.author_module(source)
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", ["hybla", "vivace"])
def test_a_shipped_algorithm_with_tables_is_compiled(name: str) -> None:
    text = (headers() / f"{name}.c").read_text()
    assert compiled(text, "mycc.c").startswith(b"\0asm")


@pytest.mark.usefixtures("compiler")
def test_an_error_has_its_line_in_the_text(folder: Path) -> None:
    line = START[: START.index("return max32(cwnd")].count("\n") + 1
    (first, *_) = wrong(START.replace("return max32(cwnd", "return max33(cwnd"))
    assert (first.line, "max33" in first.said) == (line, True), first
    assert wrong(f"{HEAD}int x = ;\n") == [Message(2, 9, "expected expression")]
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    "text",
    [
        '#include "{file}"\n',
        "#include <{file}>\n",
        '#include "../../../../../../../..{file}"\n',
        '#include "{file}"\n#pragma GCC dependency "{file}"\n',
        'const char text[] = {{\n#include "{file}"\n}};\n',
        '__asm__(".incbin \\"{file}\\"");\n',
        '#define JOINED __a##sm__\nJOINED(".include \\"{file}\\"");\n',
        '# 1 "{file}"\nint x = ;\n',
        '#line 1 "{file}"\nint x = ;\n',
        '#if __has_include("{file}")\n#error {secret}\n#endif\nint x = ;\n',
        '#define H #\nH include "{file}"\n',
        '%:define H %:\nH include "{file}"\n',
        f'{HIDDEN}A(".incbin \\"{{file}}\\"");\n',
    ],
)
def test_no_file_of_the_machine_is_seen(text: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{WORD}\n")
    said = wrong(HEAD + text.format(file=file, secret=WORD))
    assert said
    assert not any(WORD in each.said for each in said), said


@pytest.mark.usefixtures("compiler")
def test_what_a_compiler_says_is_bounded_before_it_is_searched() -> None:
    begun = time.monotonic()
    assert messages("A" * 5_000_000 + "\n" + "wasm-ld" * 50_000, "mycc.c") == [Message(0, 0, own_module.TOO_MUCH)]
    long = "A" * 250_000
    assert wrong(f'{HEAD}__attribute__((unavailable("x\\n{long}"))) int g(void);\nint f(void) {{ return g(); }}\n')
    assert time.monotonic() - begun < LEAST_S


@pytest.mark.usefixtures("compiler")
def test_nothing_is_compiled_where_the_kernel_cannot_confine_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "compilers_are_confined", lambda: False)
    with pytest.raises(InputError, match="has no Landlock"):
        compiled(START, "mycc.c")


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x" * (own_module.MOST_SOURCE + 1), "bytes are more than a file may have"),
        (f"{HEAD}#include __FILE__\n", "nested too deeply"),
        (f"{GROWS}#define A0 1;\nint f(void) {{ A29 }}\n", own_module.TOO_MUCH),
        ("#pragma clang __debug crash\n", own_module.TOO_MUCH),
    ],
)
def test_what_takes_too_much_is_refused(text: str, said: str, folder: Path) -> None:
    assert said in wrong(text)[0].said
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("compiler")
def test_a_compiler_that_goes_on_is_ended(folder: Path) -> None:
    begun = time.monotonic()
    assert wrong(START, most_s=0.02)[0].said == own_module.TOO_MUCH
    assert time.monotonic() - begun < own_module.MOST_S
    assert list(folder.iterdir()) == []


def test_a_name_that_is_none_is_refused() -> None:
    for name in ("../mycc.c", "mycc.h", "", "a b.c", "mycc.c\n"):
        with pytest.raises(InputError):
            compiled(START, name)


def test_without_a_compiler_the_page_says_so(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    answer = submit(browser, "/api/compile", file="mycc.c", text=START)
    assert answer.status_code == 422
    assert "clang and wasm-ld of the packages clang and lld is not installed on the server" in answer.json()["error"]
    assert "not installed" in browser.get("/api/me").json()["compiler"]["why"]


@pytest.mark.usefixtures("compiler")
def test_who_may_run_studies_may_compile(browser: Browser, opened: tuple[Laboratory, dict[str, str]]) -> None:
    assert browser.get("/api/me").json()["compiler"] == {"start": START, "why": ""}
    form, code = {"file": "mycc.c", "text": START}, forms(browser)
    answer = browser.post("/api/compile", data=form, headers=code).json()
    assert answer["errors"] == []
    assert answer["module"].startswith("AGFzb")
    errors = browser.post("/api/compile", data=form | {"text": f"{HEAD}int x = ;\n"}, headers=code).json()
    assert errors == {"errors": [{"line": 2, "column": 9, "said": "expected expression"}]}
    assert browser.post("/api/compile", data=form).status_code == 403
    foreign = {**code, "origin": "https://other.example"}
    assert browser.post("/api/compile", data=form, headers=foreign).status_code == 403
    assert browser.post("/api/compile", data=form | {"text": "x" * 2_000_000}, headers=code).status_code == 413
    assert browser.post("/api/leave").status_code == 200
    assert browser.post("/api/compile", data=form, headers=code).status_code == 401
    look = {"authorization": f"Bearer {opened[1]['look']}"}
    assert browser.post("/api/compile", data=form, headers=look).status_code == 403
    assert "needs a link" in browser.get("/api/me", headers=look).json()["compiler"]["why"]


def test_a_text_that_many_send_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def pretended(text: str, name: str) -> bytes:
        asked.append(text)
        time.sleep(0.05)
        if text == "wrong":
            raise Wrong([Message(1, 1, "it is wrong")])
        return f"{name} {text}".encode()

    monkeypatch.setattr(own_module, "compiled", pretended)
    modules = own_module.Modules()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: modules.of("one", "a.c"), range(30)))
    assert (found, asked) == ([b"a.c one"] * 30, ["one"])
    for _ in range(2):
        with pytest.raises(Wrong, match="it is wrong"):
            modules.of("wrong", "a.c")
    assert (modules.of("one", "b.c"), asked[1:]) == (b"b.c one", ["wrong", "wrong", "one"])
    # As many as are kept came since then.
    monkeypatch.setattr(own_module, "MOST_KEPT", 2)
    for text in ("two", "three", "one"):
        modules.of(text, "a.c")
    assert asked[4:] == ["two", "three", "one"]


def test_a_class_that_sends_one_text_at_once_is_refused_nothing(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_module, "compiled", lambda text, _name: text.encode())
    answers = browser.at_once(*[("POST", "/api/compile", {"file": "a.c", "text": f"{number}"}) for number in range(60)])
    assert [answer.status_code for answer in answers] == [200] * 60


@pytest.mark.usefixtures("compiler")
def test_a_changed_constant_gives_another_window_in_the_page(chrome: Chrome, tmp_path: Path) -> None:
    page_in_a_tab(tmp_path)

    def until(script: str) -> Any:
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            if found := chrome.execute_script(script):
                return found
            time.sleep(0.05)
        raise AssertionError(f"{script}: {chrome.execute_script('return document.body.innerText')[:2000]}")

    with serving(tmp_path) as (_, address):
        chrome.get(address)
        chrome.execute_script("location.hash = '#loss=0.1&duration=20'")
        until("return document.querySelector('main .take button:not(:disabled)') !== null")
        chrome.execute_script(COMPILE, START.replace("return max32(cwnd", "return max33(cwnd"))
        fault = until("return document.querySelector('.own .faults li')?.textContent")
        assert fault.startswith("mycc.c, line "), fault
        assert "max33" in fault
        assert violations(chrome) == []
        chrome.execute_script(COMPILE, START)
        first = until(CURVE)
        assert first.startswith("mycc|"), "it is called as it calls itself, not as its file"
        chrome.execute_script(COMPILE, START.replace('"1/1024", 307', '"1/1024", 900'))
        until("return document.getElementById('own-compile').disabled === false")
        end = time.monotonic() + WAIT_S
        while chrome.execute_script(CURVE) in (None, first):
            assert time.monotonic() < end, f"still {first}"
            time.sleep(0.05)
    assert not [line for line in chrome.get_log("browser") if line["level"] == "SEVERE"]  # type: ignore[no-untyped-call]
