# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results folders: written so that no kill leaves half a file, checked when they are read."""
