# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measurement campaigns as results: recordings by a manifest, links from a part of them, models scored on the rest."""
