# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Metrics of flows, and the statistics of tables and figures."""
