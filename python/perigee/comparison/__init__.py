# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results of one study held against each other."""
