# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Flows of results in groups: named, told apart by what varies, each with a look of its own."""
