# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Prints the README for readers outside of the repository, such as an index of packages: its links are whole addresses.

    python3 tools/readme.py VERSION

`tools/sdist.sh` calls it. The address of the repository is that of pyproject.toml.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def absolute(text: str, repository: str, ref: str) -> str:
    """Return Markdown whose relative links lead to files of a repository: pictures to content, others to pages.

    Args:
        text: the Markdown, of a file in the root of the repository.
        repository: its address.
        ref: tag or commit of the files.

    Examples:
        >>> absolute("[a](docs/a.md#b) ![c](c.svg) [d](https://example.org) [e](#e)", "https://forge.example/p", "v1")
        '[a](https://forge.example/p/blob/v1/docs/a.md#b) ![c](https://forge.example/p/raw/v1/c.svg) \
[d](https://example.org) [e](#e)'
        >>> absolute("[![c](c.svg)](docs/c.md)", "https://forge.example/p", "v1")
        '[![c](https://forge.example/p/raw/v1/c.svg)](https://forge.example/p/blob/v1/docs/c.md)'
    """

    def address(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        inner = LINK.sub(address, match[2]) if "](" in match[2] else match[2]
        return f"{match[1]}[{inner}]({repository}/{kind}/{ref}/{match[3]})"

    return LINK.sub(address, text)


def main() -> None:
    """Print the README of the version that is the argument."""
    number, _, commit = sys.argv[1].partition("+g")
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    print(
        absolute((ROOT / "README.md").read_text(encoding="utf-8"), urls["Repository"], commit or f"v{number}"), end=""
    )


if __name__ == "__main__":
    main()
