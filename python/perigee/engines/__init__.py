# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Engines: they lay a study out as runs, and carry the runs out."""
