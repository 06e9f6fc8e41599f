# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The version of the release, in a module below all others; `perigee.__version__` is the same."""

__version__ = "0.1.0"
"""Version of the release, which Cargo.toml has for the core and for packages."""
