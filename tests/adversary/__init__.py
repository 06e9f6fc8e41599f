# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests that try to break what stands; see README.md."""
