# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A page as Markdown: its first screen, texts and tables; figures are left out."""

from __future__ import annotations

from perigee.report.model import Report, Table, Text


def markdown(page: Report) -> str:
    """Return the first screen, the texts and all tables of a page."""
    lines = [f"# {page.title}", "", page.question, "", f"**{page.short.answer}**", ""]
    lines += [f"- {line}" for line in (*page.short.lines, *page.short.caveats)]
    for section in page.all_sections():
        tables = [block for block in section.blocks if isinstance(block, Table)]
        texts = [block.text for block in section.blocks if isinstance(block, Text)]
        if tables or texts:
            lines += ["", f"## {section.title}", *(f"\n{text}" for text in texts)]
        for block in tables:
            rows = [block.head, ["---"] * len(block.head), *([cell.text for cell in row] for row in block.rows)]
            lines += ["", *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)]
    return "\n".join([*lines, "", "## Made", "", *(f"- {name}: {text}" for name, text in page.made), ""])
