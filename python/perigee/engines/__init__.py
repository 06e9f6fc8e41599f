# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Engines: they plan the runs of a study and execute them."""
