# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Single links without a study: sampling, paths from orbits, and emulation for a program."""
