# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The live engine: a study's flows between real hosts, carried by iperf3."""
