# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page: its modules, styles and the simulator in one file, which opens from a folder as from any server.

`make web` writes it after the simulator is compiled for the browser; a wheel carries that file. In a checkout it is
assembled when it is asked for, also where nobody has compiled the simulator: then without what simulates in the tab.
This file needs Python alone, as `make web` calls it before anything is installed:

    python/perigee/laboratory/page.py target/web/perigee.wasm target/web/index.html
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import sys
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
ROOT = PACKAGE.parents[1]
WEB = ROOT / "web"
STATIC = PACKAGE / "laboratory" / "static"
BUILT = PACKAGE / "data" / "web" / "index.html"
"""The page of a wheel."""
SIMULATOR = ROOT / "target" / "web" / "perigee.wasm"
"""The simulator of a checkout, where somebody has compiled it."""
PLACES = (WEB, STATIC / "uplot", STATIC / "codemirror", STATIC)
"""Where a module is looked for that is not where its import says."""
LOOK = PACKAGE / "data" / "look.css"
STYLES = (LOOK, STATIC / "uplot" / "uPlot.min.css", WEB / "page.css")
MOST_ADDRESS = 8000
"""Letters of an address that every browser takes."""
MOST_BYTES = 3_000_000
"""Size of the compressed page at the most."""

ALONE = '<meta name="perigee" content="alone">'
"""Tells the page that there is nothing beside it."""
KINDS = {
    "served": {
        "img-src ": "img-src 'self' ",
        "connect-src 'none'": "connect-src 'self'",
        "frame-src 'none'": "frame-src 'self'",
    },
    "beside": {
        "script-src ": "script-src 'self' file: ",
        "img-src ": "img-src 'self' file: ",
        "frame-src 'none'": "frame-src 'self' file:",
    },
}
"""Sources that the page may load besides, by who has it: `perigee serve`, or a folder with data files beside it."""

_IMPORT = re.compile(r'^import\s+(?:(\w+)|\{([^}]*)\})\s+from\s+"(\.{1,2}/[\w./-]+\.js)";\n?', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)
_NAME = re.compile(r"^export (?:async )?(?:function\*?|class|const) (\w+)", re.MULTILINE)
_LISTED = re.compile(r"^export ?\{([^}]*)\};?\s*$|(?<=[;}])export ?\{([^}]*)\};?\s*$", re.MULTILINE)


def found(name: str, importer: Path) -> Path:
    """Return the file of a module.

    Args:
        name: as it is imported, from `./` or `../`.
        importer: the file that imports it.

    Raises:
        FileNotFoundError: there is none.
    """
    places = (importer.parent / name, *(place / Path(name).name for place in PLACES))
    for path in places:
        if path.is_file():
            return path.resolve()
    raise FileNotFoundError(f"{name}: {importer} imports it, and it is in none of {', '.join(map(str, places))}")


def names(text: str) -> dict[str, str]:
    r"""Return what a module exports, by the name that importers use.

    Examples:
        >>> names("export const ONE = 1;\nexport async function two() {}\n")
        {'ONE': 'ONE', 'two': 'two'}
        >>> names("var a;export{a as Editor,b};")
        {'Editor': 'a', 'b': 'b'}
    """
    exported = {name: name for name in _NAME.findall(text)}
    for listed in _LISTED.findall(text):
        for one in filter(None, (each.strip() for each in "".join(listed).split(","))):
            inner, _, outer = one.partition(" as ")
            exported[outer or inner] = inner
    return exported


def scripts(entry: Path) -> str:
    """Return a module with all that it imports as one text: each module a function, in the order of their imports.

    Raises:
        FileNotFoundError: a module is not there.
        ValueError: a module imports something that the other does not export, or itself.
    """
    texts: dict[Path, str] = {}
    wanted: dict[Path, set[str]] = {entry: set()}
    open_: list[Path] = []

    def add(path: Path) -> None:
        if path in open_:
            raise ValueError(f"{' imports '.join(each.name for each in [*open_, path])}: modules in a circle")
        open_.append(path)
        text = path.read_text(encoding="utf-8")
        for default, listed, name in _IMPORT.findall(text):
            other = found(name, path)
            wanted.setdefault(other, set()).update(imported(default, listed))
            if other not in texts:
                add(other)
        texts[path] = text
        open_.pop()

    add(entry)
    return "".join(function(path, text, sorted(wanted[path])) for path, text in texts.items())


def imported(default: str, listed: str) -> list[str]:
    """Return the names that an import takes of a module.

    Examples:
        >>> imported("", "a, b as c"), imported("uPlot", "")
        (['a', 'b'], ['default'])
    """
    return ["default"] if default else [each.strip().partition(" as ")[0] for each in listed.split(",") if each.strip()]


def function(path: Path, text: str, wanted: Sequence[str]) -> str:
    """Return a module as a function that is called; without names that others want: its text as it stands.

    Raises:
        ValueError: it does not export what others want.

    Examples:
        >>> function(Path("b.js"), "export const a = 1;", ["b"])
        Traceback (most recent call last):
        ValueError: b.js: does not export b, which another module imports
    """
    exported = names(text)
    if missing := [each for each in wanted if each not in exported]:
        raise ValueError(f"{path.name}: does not export {missing[0]}, which another module imports")

    def taken(match: re.Match[str]) -> str:
        default, listed, name = match.groups()
        what = f"{{ default: {default} }}" if default else f"{{{listed.replace(' as ', ': ')}}}"
        return f"const {what} = {variable(found(name, path))};\n"

    body = _LISTED.sub("", _EXPORT.sub("", _IMPORT.sub(taken, text)))
    if not wanted:
        return body
    given = ", ".join(f"{json.dumps(each)}: {exported[each]}" for each in wanted)
    return f"const {variable(path)} = (() => {{\n{body}return {{ {given} }};\n}})();\n"


def variable(path: Path) -> str:
    """Return the name of the variable that has what a module exports: of its folder and its file.

    Examples:
        >>> variable(Path("web/src/views/study.js"))
        '$views_study'
    """
    return f"${re.sub(r'[^0-9A-Za-z]', '_', f'{path.parent.name}_{path.name}'.removesuffix('.js'))}"


def digest(text: str) -> str:
    """Return what a policy has for an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def assembled(simulator: bytes | None) -> str:
    """Return the page of a checkout, as it stands in a folder alone.

    Args:
        simulator: compiled, WebAssembly; none: the page simulates nothing.

    Raises:
        FileNotFoundError: a file of it is not there.
        ValueError: its modules do not fit together.
    """
    styles = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
    script = scripts(WEB / "src" / "main.js").replace("</script", "<\\/script")
    # Modules that make styles of their own give them this nonce.
    nonce = hashlib.sha256(styles.encode()).hexdigest()[:24]
    policy = (
        f"default-src 'none'; script-src {digest(script)} 'wasm-unsafe-eval'; worker-src blob:; "
        f"style-src 'nonce-{nonce}'; img-src data: blob:; connect-src 'none'; frame-src 'none'; "
        "form-action 'none'; base-uri 'none'"
    )
    parts = {
        "policy": f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n{ALONE}',
        "styles": f'<style nonce="{nonce}">{styles}</style>',
        "scripts": f'{"" if simulator is None else embedded(simulator)}<script type="module">{script}</script>',
    }
    text = (WEB / "index.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def embedded(simulator: bytes) -> str:
    """Return the simulator and its worker as data in the page."""
    worker = json.dumps(scripts(WEB / "src" / "worker.js")).replace("<", "\\u003c")
    module = base64.b64encode(deflated(simulator)).decode()
    return (
        f'<script type="application/json" id="worker">{worker}</script>\n'
        f'<script type="application/octet-stream" id="simulator">{module}</script>\n'
    )


def page(kind: str) -> str:
    """Return the page: `served` by a laboratory, or `beside` data files, as `KINDS` has them.

    Raises:
        FileNotFoundError: neither a wheel nor a checkout is here.
    """
    text = _alone(_written())
    head, mark, rest = text.partition(ALONE)
    for before, after in KINDS[kind].items():
        head = head.replace(before, after, 1)
    return head + mark.replace("alone", kind) + rest


def check() -> None:
    """Refuse an installation without the page: a wheel has it, and a checkout its parts.

    Raises:
        InputError: as said.
    """
    # This file is a program too, before anything is installed.
    from perigee.errors import InputError

    if not BUILT.is_file() and not (WEB / "index.html").is_file():
        raise InputError("this installation was made of sources without the page", "install a wheel of perigee-lab")


def simulates() -> bool:
    """Whether the page simulates in the tab: it does where `make web` was called before."""
    return 'id="simulator"' in BUILT.read_text(encoding="utf-8") if BUILT.is_file() else SIMULATOR.is_file()


def fragment(text: str) -> str:
    """Return the end of an address that opens a study in the page; empty for a study that is too long for one.

    Examples:
        >>> fragment('name = "a"')
        '#study=y0vMTVWwVVBKVAIA'
        >>> fragment("".join(f"{number} " for number in range(30000)))
        ''
    """
    code = base64.urlsafe_b64encode(deflated(text.encode())).decode().rstrip("=")
    return f"#study={code}" if len(code) <= MOST_ADDRESS else ""


def deflated(content: bytes) -> bytes:
    """Return what `DecompressionStream("deflate-raw")` reads."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compressor.compress(content) + compressor.flush()


def _written() -> tuple[int, bool]:
    """Return when a file of the page was written last, while it is served, and whether the simulator is there."""
    files = (BUILT,) if BUILT.is_file() else (SIMULATOR, *STYLES, *WEB.rglob("*.*"), *STATIC.rglob("*.js"))
    return max((path.stat().st_mtime_ns for path in files if path.is_file()), default=0), SIMULATOR.is_file()


@lru_cache(maxsize=1)
def _alone(_since: tuple[int, bool]) -> str:
    if BUILT.is_file():
        return BUILT.read_text(encoding="utf-8")
    return assembled(SIMULATOR.read_bytes() if SIMULATOR.is_file() else None)


def main(arguments: list[str]) -> int:
    """Write the page; say how large it is."""
    simulator, out = map(Path, arguments)
    if not simulator.is_file():
        print(f"{simulator}: is not compiled (make web); the page has no lessons and nothing to try")
    text = assembled(simulator.read_bytes() if simulator.is_file() else None).encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(text)
    compressed = len(gzip.compress(text, 9))
    print(f"{out}: {len(text) / 1e6:.2f} MB, {compressed / 1e6:.2f} MB compressed")
    if compressed > MOST_BYTES:
        print(f"{out}: more than {MOST_BYTES / 1e6:g} MB compressed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
