# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Execution of plans: on all cores, into a results folder that can be resumed."""
