# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Searches for the link and traffic where a congestion control does worst, and shrinks it to a small study."""
