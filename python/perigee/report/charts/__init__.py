# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The kinds of figures: each draws data into the axes of a grid of panels."""
