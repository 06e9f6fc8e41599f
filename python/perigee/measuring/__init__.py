# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measurements of real paths: round trips, and probes at constant rates."""
