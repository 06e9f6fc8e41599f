# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""This host: what it has, what its TCP is set to, what fits into it."""
