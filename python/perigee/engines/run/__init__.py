# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs of a plan carried out: on all cores, into a results folder that can be resumed."""
