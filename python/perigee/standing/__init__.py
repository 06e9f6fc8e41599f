# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The standing of every shipped congestion control: verdicts by RFC 9743, the kernel's answer, satellite links."""
