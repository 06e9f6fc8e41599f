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

from perigee.groups.looks import style_sheet
from perigee.laboratory.page import fragment
from perigee.version import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent.parent

project = "Perigee"
author = "The Perigee authors"
project_copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx_copybutton"]
copybutton_prompt_text = r"[$#] "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
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
    "tests/data/**",
    "python/perigee/stacks/programs/**",
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
html_search_scorer = str(ROOT / "docs/site/scorer.js")
COLOURS = {
    "brand-primary": "accent",
    "brand-content": "accent",
    "foreground-primary": "ink",
    "background-primary": "paper",
}
"""Variables of furo, and those of the style sheet of all pages that they take their values from."""
LOOK, DARK = (
    dict(re.findall(r"--([\w-]+): ([^;]+);", part))
    for part in style_sheet().split("@media screen and (prefers-color-scheme: dark)")
)
html_theme_options = {
    "footer_icons": [],
    "navigation_with_keys": True,
    "light_css_variables": {f"color-{own}": LOOK[name] for own, name in COLOURS.items()},
    "dark_css_variables": {f"color-{own}": DARK[name] for own, name in COLOURS.items()},
}
pygments_style = "friendly"
pygments_dark_style = "monokai"

GUIDES = ROOT / "docs/guide/README.md"
"""Its sections are the first groups of the sidebar."""
USE = {
    "Answers": "docs/answers/README",
    "All guides": "docs/guide/README",
    "Reference": "docs/reference/README",
    "Models": "docs/models/README",
    "Beside the kernel": "docs/models/validation",
    "Studies": "studies/README",
    "Scoreboard": "docs/scoreboard/README",
    "QUIC stacks": "docs/quic-matrix/README",
}
"""Entries of the sidebar for users below the guides, and the page of each."""

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
    "docs/reference/README": {
        "Commands": "docs/reference/commands",
        "Python": "docs/reference/python",
        "Columns of the tables": "schema/README",
    },
    "docs/models/README": {"Profiles of links": "profiles/README"},
}
"""Pages that the contents of another folder end with."""

TAB = ROOT / "target" / "web" / "index.html"
"""The laboratory in a browser tab, where `make web` has built it."""
LIVE = re.compile(r"^<!-- live: ([\w=&.,-]+) -->$", re.MULTILINE)
"""A comment in whose place the site has a live figure, with what an address of the laboratory in a tab says."""
WITHOUT = "*A figure that is simulated in this page: `make web`, before `make docs`, puts it here.*"
"""Text in the place of a live figure where there is no laboratory in a tab."""
STUDY = re.compile(r"^```toml\n(name = .*\n(?:(?!```).*\n)*)```\n\n<!-- in the tab -->$", re.MULTILINE)
"""A study, and the comment in whose place the site has a link that opens it in the laboratory in a tab."""
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
GROUP = re.compile(r"^## (.*)\n\n((?:- .*\n)+)", re.MULTILINE)
"""A group of guides, and the lines of its pages."""
MATRIX = "<!-- cells beside the kernel -->"
"""A comment in whose place the site has the table below."""
CELL = re.compile(r"^\| (\S+) \| (\w+) \| .* \| (yes|no)[^|]* \|$", re.MULTILINE)
"""A cell of `docs/models/validation.md`: link, congestion control, verdict."""


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
        groups = GROUP.findall(GUIDES.read_text(encoding="utf-8"))
        guides = [(title, [f"/docs/guide/{Path(one).stem}" for one in LINK.findall(pages)]) for title, pages in groups]
        source[0] = source[0].replace(MATRIX, matrix((ROOT / "docs/models/validation.md").read_text(encoding="utf-8")))
        source[0] += "".join(toctree(pages, title) for title, pages in guides)
        source[0] += toctree(titled(USE), "Look up") + toctree(["Contributing </CONTRIBUTING>"], "Develop")
    elif name == "CONTRIBUTING":
        source[0] += toctree(titled(DEVELOP))
    elif name.endswith("/README"):
        below = BELOW.get(name, {})
        elsewhere = {*USE.values(), *DEVELOP.values(), *below.values()}
        # The groups of guides are in the sidebar already.
        elsewhere |= (
            {f"docs/guide/{page.stem}" for page in GUIDES.parent.glob("*.md")} if name == "docs/guide/README" else set()
        )
        pages = [page for page in contents(ROOT / f"{name}.md", source[0]) if page not in elsewhere]
        source[0] += toctree([*(f"/{page}" for page in pages), *titled(below)])


def with_figures(_app: Sphinx, name: str, source: list[str]) -> None:
    """Put live figures and links in the places of their comments, where there is a laboratory in a tab to show them."""
    tab = f"{'../' * name.count('/')}tab.html"

    def frame(match: re.Match[str]) -> str:
        title = f"Simulated in this page: {match[1].replace('&', ', ')}"
        address = f"{tab}#view=figure&amp;{match[1].replace('&', '&amp;')}"
        figure = f'<iframe class="live" loading="lazy" title="{title}" src="{address}"></iframe>'
        words = "All controls, your own algorithm and ten lessons"
        all_of_it = f'<p><a href="{tab}#{match[1].replace("&", "&amp;")}">{words}</a></p>'
        return f"```{{raw}} html\n{figure}\n{all_of_it}\n```"

    def link(match: re.Match[str]) -> str:
        study = match[0].removesuffix("<!-- in the tab -->")
        words = "Try this study in a tab, with nothing installed"
        return f'{study}```{{raw}} html\n<p><a href="{tab}{fragment(match[1])}">{words}</a></p>\n```'

    source[0] = STUDY.sub(link, LIVE.sub(frame, source[0])) if TAB.is_file() else LIVE.sub(WITHOUT, source[0])


def matrix(page: str) -> str:
    """Return the cells of one flow beside the kernel as a table: a column per link, and whether each is within."""
    cells = CELL.findall(page.partition("## Pairs")[0])
    links = list(dict.fromkeys(link for link, _, _ in cells))
    verdicts = {(link, cc): verdict for link, cc, verdict in cells}
    rows = [["", *links], ["---", *[":-:"] * len(links)]]
    rows += (
        [f"`{cc}`", *({"yes": "●", "no": "○ no"}[verdicts[link, cc]] for link in links)]
        for cc in dict.fromkeys(cc for _, cc, _ in cells)
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


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
