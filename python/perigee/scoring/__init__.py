# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Scores of models against publications: each published number and claim, beside registered and today's results."""
