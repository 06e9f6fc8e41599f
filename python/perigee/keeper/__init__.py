# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Keeps runs for programs that judge congestion controls: small studies, their runs in memory, and what is kept."""
