# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Scores of congestion controls for programs that write them: small fixed cells, beside Reno, CUBIC and BBR."""
