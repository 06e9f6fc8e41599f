# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measurements of real paths: probes at constant rates, and pings beside them."""
