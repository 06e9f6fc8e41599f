# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Sizes of packets' headers, in bytes."""

IPV4, IPV6, TCP, UDP = 20, 40, 20, 8
"""Without options."""

TCP_TIMESTAMPS = 12
"""The option with its padding (RFC 7323)."""
