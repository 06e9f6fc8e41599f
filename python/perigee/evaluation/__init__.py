# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Evaluates a congestion control by the criteria of RFC 9743 (BCP 133), with a verdict for each."""
