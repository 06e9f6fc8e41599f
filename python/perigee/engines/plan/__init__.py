# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A study laid out: its runs, and what is known of them before they begin."""
