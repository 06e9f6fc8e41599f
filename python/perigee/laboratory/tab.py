# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The laboratory in a browser tab: the page that `make web` writes, and the addresses that open a study in it."""

from __future__ import annotations

import base64
import html
import json
import zlib
from pathlib import Path

PAGE = "tab"
"""Its address in a laboratory, and its name in a site."""
ABSENT = (
    "The laboratory in a browser tab is not here; `make web` in a checkout builds it, for a wheel made afterwards too."
)
"""Where nobody has built the page."""
MOST_ADDRESS = 8000
"""Letters of an address that every browser takes."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; "
        "style-src 'unsafe-inline'; img-src data: blob:; connect-src 'none'; form-action 'none'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "cache-control": "private, max-age=60",
}
"""Headers of the page. Its own policy is stricter: that names script and style by their digests."""


def built() -> Path | None:
    """Return the page: of the package, or of the checkout; none where nobody has built it."""
    package = Path(__file__).resolve().parent.parent
    candidates = (package / "data" / "web" / "index.html", package.parents[1] / "target" / "web" / "index.html")
    return next((path for path in candidates if path.is_file()), None)


def with_compiler(page: str, compiler: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the page and its headers as a laboratory serves them: it may ask this server, and no other, to compile C.

    Args:
        page: as it was built.
        compiler: `at`, the address that compiles; `forms`, what a form of this session carries; `start`, a text to
            begin with; `why` nothing can be compiled, or empty.
    """
    told = f'<meta name="compiler" content="{html.escape(json.dumps(compiler))}">'
    page = page.replace("connect-src 'none'", "connect-src 'self'", 1).replace("<title>", f"{told}\n<title>", 1)
    policy = HEADERS["content-security-policy"].replace("connect-src 'none'", "connect-src 'self'")
    return page, {"content-security-policy": policy, "cache-control": "no-store"}


def fragment(text: str) -> str:
    """Return the end of an address that opens a study in the page; empty for a study that is too long for one.

    Examples:
        >>> fragment('name = "a"')
        '#study=y0vMTVWwVVBKVAIA'
        >>> fragment("".join(f"{number} " for number in range(30000)))
        ''
    """
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = compressor.compress(text.encode()) + compressor.flush()
    code = base64.urlsafe_b64encode(packed).decode().rstrip("=")
    return f"#study={code}" if len(code) <= MOST_ADDRESS else ""
