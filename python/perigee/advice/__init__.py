# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Advice: which settings of hosts, queues and proxies gain over a link, by simulating a menu of them."""
