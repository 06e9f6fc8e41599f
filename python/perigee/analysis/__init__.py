# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Recordings of other programs as results: captures, iperf3's JSON, logs of pings and probes."""
