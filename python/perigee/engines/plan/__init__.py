# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The plan of a study: its runs, and forecasts of them."""
