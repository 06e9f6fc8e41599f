# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Pages that are no report of a study: an evaluation, an attack, a measurement of latency under load."""
