# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Sphinx configuration of the documentation site, which `make docs` builds from the repository's own Markdown files.

The source folder is the root of the repository, so that links between its files lead to pages as they are. The contents
of a folder are the pages that its README.md links to, in that order, and the READMEs of its folders; a page that is in
no contents is an error.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent.parent

project = "Perigee"
author = "The Perigee authors"
project_copyright = author
version = release = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/**.md",
    *(f"{folder}/**README.md" for folder in ("algorithms", "benches", "crates", "fuzz", "packaging", "profiles")),
    *(f"{folder}/**README.md" for folder in ("python", "studies", "tests", "tools")),
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
myst_heading_anchors = 6
suppress_warnings = ["myst.header"]  # READMEs begin with the level that fits their place in the repository

html_theme = "furo"
html_title = f"Perigee {release}"
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # summaries are fetched, which a browser refuses for a page opened from a folder
html_theme_options = {"footer_icons": [], "navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"

SECTIONS = {
    "Documentation": "docs/README",
    "Guides": "docs/guide/README",
    "Notebooks": "docs/notebooks/README",
    "Reference": "docs/reference/README",
    "Models": "docs/models/README",
    "Studies": "studies/README",
    "Profiles of links": "profiles/README",
    "Columns of the tables": "schema/README",
    "Architecture": "docs/architecture",
    "Decisions": "docs/decisions/README",
    "Security": "docs/security",
    "Congestion controls": "algorithms/README",
    "Crates": "crates/README",
    "Package": "python/README",
    "Validation": "validation/README",
    "Benchmarks": "benches/README",
    "Packaging": "packaging/README",
    "Tools": "tools/README",
    "Fuzzing": "fuzz/README",
    "Adversary": "tests/adversary/README",
    "Extensions": "tests/extensions/README",
    "Contributing": "CONTRIBUTING",
    "Changes": "CHANGELOG",
}
"""What the sidebar lists, and the page of each."""

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
    """Append the contents of a folder to its README, where the sidebar takes them from."""
    if name == root_doc:
        entries = [f"{title} </{page}>" for title, page in SECTIONS.items()]
    elif name.endswith("/README"):
        entries = [f"/{page}" for page in contents(ROOT / f"{name}.md", source[0])]
    else:
        return
    if entries:
        lines = "\n".join(entries)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n\n{lines}\n```\n"


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", with_contents)
