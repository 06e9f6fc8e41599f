# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Link profiles from the configuration of other tools: tc, ns-3, Mahimahi, toxiproxy and comcast."""
