# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Answers to the page, an area a file: each function answers one route of `site.py`."""
