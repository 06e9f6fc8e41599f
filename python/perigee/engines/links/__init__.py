# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Single links, without a study: sampled, computed from orbits, or emulated for a program."""
