# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The kinds of figures: each draws data into axes, and a grid of panels holds them."""
