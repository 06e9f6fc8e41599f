# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Builds the documentation site into target/docs, and checks its pages.

`make docs` calls it. Warnings of Sphinx are errors; so are links to pages, files or places on a page that are not
there, and whatever a page would fetch from another host: the site is read from a folder, without a network.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "target" / "docs"
BUILT = ROOT / "target" / "web" / "index.html"
"""The laboratory in a browser tab, where `make web` has built it; live figures of pages are in it."""
GENERATED = ("commands.py", "python_reference.py")
"""Tools that write pages which only the site has."""
TAB = SITE / "tab.html"
START = "docs/site/start.html"
"""The page that the site begins with."""
LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "video": "src"}
"""Elements that fetch what an attribute of theirs names."""
SEARCH = '<script src="_static/pages.js"></script>\n'
"""Texts of the pages for the excerpts of the search: nothing can be fetched in a folder."""
MAIN = re.compile(r'<article role="main".*?</article>', re.DOTALL)
LEFT_OUT = re.compile(
    r'<(script|style|svg|math)\b.*?</\1>|<a class="headerlink".*?</a>|<table.*?</table>|<[^>]+>|(?<=\s)\s+', re.DOTALL
)


class Page(HTMLParser):
    """A page's links, files and anchors.

    Examples:
        >>> page = Page('<p id="a"><a href="b.html#c">b</a><script src="https://example.org/x.js"></script></p>')
        >>> page.anchors, page.links, page.loaded
        ({'a'}, ['b.html#c'], ['https://example.org/x.js'])
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        given = {name: value for name, value in attrs if value}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif LOADS.get(tag) in given:
            self.loaded.append(given[LOADS[tag]])


def faults(pages: dict[Path, Page]) -> Iterator[str]:
    """Return what is wrong with the links of pages, a line each.

    Args:
        pages: the pages of the site, by their files.
    """
    for file, page in pages.items():
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    yield f"{file}: loads {link}; a page may load only files of the site"
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                yield f"{file}: links to {link}, which is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{file}: links to {link}, which has no such place"


def excerpts(pages: Mapping[Path, str]) -> str:
    """Return a script with the texts of pages as elements by their addresses; tables are left out.

    Examples:
        >>> script = excerpts({SITE / "a.html": '<article role="main"><p>One &amp; <b>two</b></p></article>'})
        >>> '[["a.html", "One &amp; two"]]' in script
        True
    """
    texts = [
        (str(file.relative_to(SITE)), LEFT_OUT.sub("", found[0]).strip())
        for file, text in pages.items()
        if (found := MAIN.search(text))
    ]
    return (
        f"const PAGES = {{}};\nfor (const [page, text] of {json.dumps(texts)}) "
        'PAGES[new URL(page, location).href] = `<div role="main">${text}</div>`;\n'
    )


def main() -> int:
    """Build the site and print where it is, or what is wrong with it."""
    folders = ["-c", ROOT / "docs/site", "-d", ROOT / "target/doctrees", ROOT, SITE]
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-b", "html", *map(str, folders)]
    for tool in GENERATED:
        subprocess.run([sys.executable, ROOT / "tools" / tool], check=True)
    # Pages that are no more are not found either.
    shutil.rmtree(SITE, ignore_errors=True)
    if subprocess.run(command, check=False).returncode:
        return 1
    (SITE / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={START}">\n', encoding="utf-8")
    TAB.unlink(missing_ok=True)
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(SITE.rglob("*.html"))}
    (SITE / "_static/pages.js").write_text(excerpts(texts), encoding="utf-8")
    search = SITE / "search.html"
    search.write_text(texts[search].replace("</head>", f"{SEARCH}</head>", 1), encoding="utf-8")
    pages = {file: Page(text) for file, text in texts.items()}
    if BUILT.is_file():
        shutil.copyfile(BUILT, TAB)
    wrong = list(faults(pages))
    print("\n".join(wrong) or f"{len(pages)} pages; the first is {SITE / 'index.html'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
