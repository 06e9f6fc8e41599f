# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command line: one module per command, which reads its options, calls the other packages and prints."""
