# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tables for LaTeX: columns that fit the page, heads that wrap, long tables over several pages."""

from __future__ import annotations

from collections.abc import Sequence

from perigee.report.model import Plot, Table

PACKAGES = ("booktabs", "amssymb", "array", "longtable")
"""Packages for these tables."""

MOST_COLUMNS = 7
"""Maximum columns beside the first; a wider table continues in another one."""

MOST_ROWS = 30
"""Rows of a table on one page; a longer one breaks over pages."""

_LETTERS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "−": r"$-$", "★": r"$\star$",
    "✓": r"\checkmark{}", "✗": r"$\times$", "×": r"$\times$", "·": r"$\cdot$", "–": "--", "α": r"$\alpha$",
    ">": r"$>$", "<": r"$<$", "≥": r"$\geq$", "≤": r"$\leq$", "\u202f": r"\,", "²": "$^2$", "³": "$^3$", "“": "``",
    "”": "''", "’": "'", "…": r"\ldots{}", "µ": r"$\mu$", "\"": "''",
}  # fmt: skip


def latex(table: Table) -> str:
    r"""Return a table for LaTeX, its packages named at its head.

    Examples:
        >>> import polars as pl
        >>> from perigee.report.model import Cell
        >>> small = Table("t", "A caption", ["", "Rate (Mbit/s)"], [[Cell("BBR"), Cell("95.8 ± 6.7")]], pl.DataFrame())
        >>> print(latex(small))
        % Needs: \usepackage{booktabs,amssymb,array,longtable}
        \begin{table}
        \caption{A caption}
        \label{tab:t}
        \begin{tabular}{l>{\raggedleft\arraybackslash}p{0.34\linewidth}}
        \toprule
         & Rate (Mbit/s) \\
        \midrule
        BBR & 95.8 $\pm$ 6.7 \\
        \bottomrule
        \end{tabular}
        \end{table}
        <BLANKLINE>
    """
    parts = list(_parts(len(table.head)))
    lines = [rf"% Needs: \usepackage{{{','.join(PACKAGES)}}}"]
    for number, columns in enumerate(parts):
        lines += _part(table, columns, number, is_last=number == len(parts) - 1)
    return "\n".join([*lines, ""])


def figure(plot: Plot, file: str) -> str:
    """Return a figure for LaTeX with its caption, given the name of its PDF."""
    return "\n".join(
        [
            r"% Needs: \usepackage{graphicx,amssymb}; \graphicspath{{FOLDER/}} if the PDF is in another folder",
            r"\begin{figure}",
            r"\centering",
            rf"\includegraphics[width=\linewidth]{{{file}}}",
            rf"\caption{{{escape(plot.caption)}}}",
            rf"\label{{fig:{plot.name}}}",
            r"\end{figure}",
            "",
        ]
    )


def _parts(columns: int) -> list[list[int]]:
    """Return the columns of each part of a table; each part has the first column.

    Examples:
        >>> [len(part) for part in _parts(3)], [len(part) for part in _parts(11)]
        ([3], [6, 6])
    """
    others = list(range(1, columns))
    count = max(1, -(-len(others) // MOST_COLUMNS))
    size = max(1, -(-len(others) // count))
    return [[0, *others[begin : begin + size]] for begin in range(0, max(1, len(others)), size)]


def _part(table: Table, columns: Sequence[int], number: int, *, is_last: bool) -> list[str]:
    caption = escape(table.caption) + (r" (continued)" if number else "")
    label = rf"\label{{tab:{table.name}{f'-{number + 1}' if number else ''}}}"
    is_long = len(table.rows) > MOST_ROWS
    heads = _groups(table, columns)
    heads += [" & ".join(escape(table.head[column]) for column in columns) + r" \\"]
    rows = [
        _begin(" & ".join(_cell(table, at, column) for column in columns)) + r" \\" for at in range(len(table.rows))
    ]
    notes = [rf"\par\footnotesize {escape(note)}" for note in table.notes] if is_last else []
    kind = _columns(table, columns)
    if not is_long:
        small = [r"\small"] if len(columns) > 4 else []
        return [
            r"\begin{table}", *small, rf"\caption{{{caption}}}", label, rf"\begin{{tabular}}{{{kind}}}", r"\toprule",
            *heads, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", *notes, r"\end{table}",
        ]  # fmt: skip
    return [
        r"{\small", rf"\begin{{longtable}}{{{kind}}}", rf"\caption{{{caption}}}{label}\\", r"\toprule", *heads,
        r"\midrule", r"\endfirsthead", r"\toprule", *heads, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot",
        *rows, r"\end{longtable}", "}", *notes,
    ]  # fmt: skip


def _columns(table: Table, columns: Sequence[int]) -> str:
    """Return the column declaration: the first at natural width or a third of the line; the others share the rest."""
    longest = max((len(row[0].text) for row in table.rows), default=0)
    is_wide = longest > 24
    first = r">{\raggedright\arraybackslash}p{0.28\linewidth}" if is_wide else "l"
    others = [column for column in columns if column]
    # The gap between two columns is some 2 % of a line.
    width = (0.70 if is_wide else 0.80 - 0.012 * longest) / max(1, len(others)) - 0.025
    width = min(width, 0.34)
    sides = (r"\raggedright" if column in table.words else r"\raggedleft" for column in others)
    return first + "".join(rf">{{{side}\arraybackslash}}p{{{width:.2g}\linewidth}}" for side in sides)


def _groups(table: Table, columns: Sequence[int]) -> list[str]:
    """Return the line of headings above the headings, as far as they are over these columns."""
    if not table.groups:
        return []
    owner = [place for place, (_, span) in enumerate(table.groups) for _ in range(span)]
    cells: list[tuple[int, int]] = []
    for column in columns:
        if cells and cells[-1][0] == owner[column]:
            cells[-1] = (owner[column], cells[-1][1] + 1)
        else:
            cells.append((owner[column], 1))
    return [" & ".join(_spanning(table.groups[place][0], span) for place, span in cells) + r" \\"]


def _spanning(text: str, span: int) -> str:
    return escape(text) if span == 1 else rf"\multicolumn{{{span}}}{{c}}{{{escape(text)}}}"


def _cell(table: Table, row: int, column: int) -> str:
    cell = table.rows[row][column]
    text = "" if table.repeats(row, column) else escape(cell.text)
    return rf"\textbf{{{text}}}" if cell.mark == "best" else text


def _begin(row: str) -> str:
    """Return a row whose beginning cannot be read as an argument of the line break before it."""
    return "{}" + row if row.lstrip().startswith(("[", "*")) else row


def escape(text: str) -> str:
    r"""Return a text that LaTeX sets as it is; line breaks and other control characters are spaces.

    A letter outside Latin fonts is written as its code point.

    Examples:
        >>> escape("5 % of a_b"), escape("é"), escape("日")
        ('5 \\% of a\\_b', 'é', 'U+65E5')
    """
    plain = "".join(letter if letter.isprintable() or letter == "\u202f" else " " for letter in text)
    return "".join(_LETTERS.get(one) or (one if ord(one) < LATIN else f"U+{ord(one):04X}") for one in plain)


LATIN = 0x180
"""Letters below this are set by every LaTeX of today."""
