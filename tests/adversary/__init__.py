# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests with random and hostile inputs; see README.md."""
