# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Agents of a laboratory: processes on other hosts that carry flows of live studies and capture their packets."""
