# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Sphinx configuration of the documentation site, which `make docs` builds from the repository's own Markdown files.

The source folder is the root of the repository, so that links between its files lead to pages as they are. The contents
of a folder are the pages that its README.md links to, in that order, and the READMEs of its folders; a page that is in
no contents is an error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.laboratory.tab import fragment
from perigee.version import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent.parent

project = "Perigee"
author = "The Perigee authors"
project_copyright = author
version = release = __version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "docs/site/start"
include_patterns = [
    "*.md",
    "docs/**.md",
    *(f"{folder}/**README.md" for folder in ("algorithms", "benches", "crates", "fuzz", "packaging", "profiles")),
    *(f"{folder}/**README.md" for folder in ("python", "studies", "tests", "tools", "web")),
    "schema/*.md",
    "validation/**.md",
]
exclude_patterns = [
    "**/target/**",
    "python/perigee/data/**",
    "python/perigee/laboratory/**",
    "**/corpus/**",
    "benches/peers/build/**",
    "tests/axe-core/**",
]
myst_enable_extensions = ["attrs_block"]
myst_heading_anchors = 6
suppress_warnings = ["myst.header"]  # READMEs begin with the level that fits their place in the repository

html_theme = "furo"
html_title = f"Perigee {release}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_search_summary = False  # summaries are fetched, which a browser refuses for a page opened from a folder
html_theme_options = {"footer_icons": [], "navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"

USE = {
    "Start": "self",
    "Guides": "docs/guide/README",
    "Reference": "docs/reference/README",
    "Models": "docs/models/README",
    "Studies": "studies/README",
}
"""Entries of the sidebar for users, and the page of each."""

DEVELOP = {
    "The repository": "README",
    "Documentation": "docs/README",
    "Architecture": "docs/architecture",
    "Decisions": "docs/decisions/README",
    "Congestion controls": "algorithms/README",
    "Crates": "crates/README",
    "Package": "python/README",
    "Validation": "validation/README",
    "Benchmarks": "benches/README",
    "Packaging": "packaging/README",
    "Tools": "tools/README",
    "Site": "docs/site/README",
    "In a browser": "web/README",
    "Fuzzing": "fuzz/README",
    "Adversary": "tests/adversary/README",
    "Extensions": "tests/extensions/README",
    "Changes": "CHANGELOG",
    "Security policy": "SECURITY",
}
"""Entries of the sidebar for developers, folded below `CONTRIBUTING`, and the page of each."""

BELOW = {
    "docs/guide/README": {"Notebooks": "docs/notebooks/README", "Security": "docs/security"},
    "docs/reference/README": {"Columns of the tables": "schema/README"},
    "docs/models/README": {"Profiles of links": "profiles/README"},
}
"""Pages that the contents of another folder end with."""

TAB = ROOT / "target" / "web" / "index.html"
"""The laboratory in a browser tab, where `make web` has built it."""
LIVE = re.compile(r"^<!-- live: ([\w=&.,-]+) -->$", re.MULTILINE)
"""A comment in whose place the site has a live figure, with what an address of the laboratory in a tab says."""
STUDY = re.compile(r"^```toml\n(name = .*\n(?:(?!```).*\n)*)```\n\n<!-- in the tab -->$", re.MULTILINE)
"""A study, and the comment in whose place the site has a link that opens it in the laboratory in a tab."""
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")


def contents(page: Path, text: str) -> list[str]:
    """Return the pages below the folder of a README, as Sphinx names them: those it links to, then READMEs of folders.

    Args:
        page: the file.
        text: its Markdown.
    """
    found = []
    for target in LINK.findall(text):
        file = (page.parent / target).resolve()
        file = file / "README.md" if file.is_dir() else file
        if file.suffix == ".md" and file != page and file.is_file() and file.is_relative_to(page.parent):
            found.append(file)
    found += sorted(page.parent.glob("*/README.md"))
    return [str(file.relative_to(ROOT).with_suffix("")) for file in dict.fromkeys(found)]


def with_contents(_app: Sphinx, name: str, source: list[str]) -> None:
    """Append the contents of a folder to its README, and the sidebar's parts to the start page and to CONTRIBUTING."""
    if name == root_doc:
        source[0] += toctree(titled(USE), "Use") + toctree(["Contributing </CONTRIBUTING>"], "Develop")
    elif name == "CONTRIBUTING":
        source[0] += toctree(titled(DEVELOP))
    elif name.endswith("/README"):
        below = BELOW.get(name, {})
        elsewhere = {*USE.values(), *DEVELOP.values(), *below.values()}
        pages = [page for page in contents(ROOT / f"{name}.md", source[0]) if page not in elsewhere]
        source[0] += toctree([*(f"/{page}" for page in pages), *titled(below)])


def with_figures(_app: Sphinx, name: str, source: list[str]) -> None:
    """Put live figures and links in the places of their comments, where there is a laboratory in a tab to show them."""
    tab = f"{'../' * name.count('/')}tab.html"

    def frame(match: re.Match[str]) -> str:
        title = f"Simulated in this page: {match[1].replace('&', ', ')}"
        address = f"{tab}#view=figure&amp;{match[1].replace('&', '&amp;')}"
        return f'```{{raw}} html\n<iframe class="live" loading="lazy" title="{title}" src="{address}"></iframe>\n```'

    def link(match: re.Match[str]) -> str:
        study = match[0].removesuffix("<!-- in the tab -->")
        words = "Try this study in a tab, with nothing installed"
        return f'{study}```{{raw}} html\n<p><a href="{tab}{fragment(match[1])}">{words}</a></p>\n```'

    if TAB.is_file():
        source[0] = STUDY.sub(link, LIVE.sub(frame, source[0]))


def titled(sections: dict[str, str]) -> list[str]:
    """Return the entries of a toctree for pages with titles of their own."""
    return [f"{title} <{page if page == 'self' else f'/{page}'}>" for title, page in sections.items()]


def toctree(entries: list[str], caption: str = "") -> str:
    """Return a hidden table of contents in Markdown, empty without entries."""
    if not entries:
        return ""
    lines = "\n".join([":hidden:", *([f":caption: {caption}"] if caption else []), "", *entries])
    return f"\n\n```{{toctree}}\n{lines}\n```\n"


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", with_contents)
    app.connect("source-read", with_figures)
