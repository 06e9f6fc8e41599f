# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes the laboratory in a browser tab: one page with its modules, styles and the simulator in it.

`make web` calls it, after the simulator is compiled for the browser. The page opens from a folder as from any server:
it loads nothing, and its policy forbids all connections.

    tools/web_page.py target/web/perigee.wasm target/web/index.html
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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
STATIC = ROOT / "python" / "perigee" / "laboratory" / "static"
PLACES = (WEB / "src", WEB / "src" / "lessons", WEB, STATIC / "uplot", STATIC / "codemirror", STATIC)
"""Where a module that another one imports is looked for."""
STYLES = (
    STATIC.parents[1] / "data" / "look.css",
    STATIC / "laboratory.css",
    STATIC / "uplot" / "uPlot.min.css",
    WEB / "page.css",
)
MOST_BYTES = 3_000_000
"""Size of the compressed page at the most."""

_IMPORT = re.compile(
    r'^import\s+(?:(\w+)|\{([^}]*)\})\s+from\s+"\.{1,2}/(?:[\w./-]*/)?([\w.-]+\.js)";\n?', re.MULTILINE
)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)
_NAME = re.compile(r"^export (?:async )?(?:function\*?|class|const) (\w+)", re.MULTILINE)
_LISTED = re.compile(r"^export ?\{([^}]*)\};?\s*$|(?<=[;}])export ?\{([^}]*)\};?\s*$", re.MULTILINE)


def found(name: str) -> Path:
    """Return the file of a module.

    Raises:
        FileNotFoundError: there is none.
    """
    for place in PLACES:
        if (place / name).is_file():
            return place / name
    raise FileNotFoundError(f"{name}: is imported, and in none of {', '.join(str(place) for place in PLACES)}")


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


def scripts(entry: str) -> str:
    """Return a module with all that it imports as one text: each module a function, in the order of their imports.

    Raises:
        ValueError: a module imports something that the other does not export, or itself.
    """
    texts: dict[str, str] = {}
    wanted: dict[str, set[str]] = {entry: set()}
    open_: list[str] = []

    def add(name: str) -> None:
        if name in open_:
            raise ValueError(f"{' imports '.join([*open_, name])}: modules in a circle")
        open_.append(name)
        text = found(name).read_text(encoding="utf-8")
        for default, listed, other in _IMPORT.findall(text):
            wanted.setdefault(other, set()).update(imported(default, listed))
            if other not in texts:
                add(other)
        texts[name] = text
        open_.pop()

    add(entry)
    return "".join(function(name, text, sorted(wanted[name])) for name, text in texts.items())


def imported(default: str, listed: str) -> list[str]:
    """Return the names that an import takes of a module.

    Examples:
        >>> imported("", "a, b as c"), imported("uPlot", "")
        (['a', 'b'], ['default'])
    """
    return ["default"] if default else [each.strip().partition(" as ")[0] for each in listed.split(",") if each.strip()]


def function(name: str, text: str, wanted: Sequence[str]) -> str:
    """Return a module as a function that is called; without names that others want: its text as it stands.

    Raises:
        ValueError: it does not export what others want.

    Examples:
        >>> function("b.js", 'import { a } from "./a.js";', ["b"])
        Traceback (most recent call last):
        ValueError: b.js: does not export b, which another module imports
    """
    exported = names(text)
    if missing := [each for each in wanted if each not in exported]:
        raise ValueError(f"{name}: does not export {missing[0]}, which another module imports")
    body = _LISTED.sub("", _EXPORT.sub("", _IMPORT.sub(_taken, text)))
    if not wanted:
        return body
    given = ", ".join(f"{json.dumps(each)}: {exported[each]}" for each in wanted)
    return f"const {variable(name)} = (() => {{\n{body}return {{ {given} }};\n}})();\n"


def _taken(match: re.Match[str]) -> str:
    default, listed, other = match.groups()
    what = f"{{ default: {default} }}" if default else f"{{{listed.replace(' as ', ': ')}}}"
    return f"const {what} = {variable(other)};\n"


def variable(name: str) -> str:
    """Return the name of the variable that has what a module exports.

    Examples:
        >>> variable("uPlot.esm.js")
        '$uPlot_esm'
    """
    return f"${re.sub(r'[^0-9A-Za-z]', '_', name.removesuffix('.js'))}"


def digest(text: str) -> str:
    """Return what a policy has for an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page(simulator: bytes) -> str:
    """Return the page.

    Args:
        simulator: the compiled simulator, WebAssembly.
    """
    styles = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
    script = scripts("main.js").replace("</script", "<\\/script")
    worker = json.dumps(scripts("worker.js")).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src {digest(script)} 'wasm-unsafe-eval'; worker-src blob:; "
        f"style-src {digest(styles)}; img-src data: blob:; connect-src 'none'; form-action 'none'; base-uri 'none'"
    )
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    module = base64.b64encode(compressor.compress(simulator) + compressor.flush()).decode()
    parts = {
        "policy": f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "styles": f"<style>{styles}</style>",
        "scripts": f'<script type="application/json" id="worker">{worker}</script>\n'
        f'<script type="application/octet-stream" id="simulator">{module}</script>\n'
        f'<script type="module">{script}</script>',
    }
    text = (WEB / "index.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def main(arguments: list[str]) -> int:
    """Write the page; say how large it is."""
    simulator, out = map(Path, arguments)
    text = page(simulator.read_bytes()).encode()
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
