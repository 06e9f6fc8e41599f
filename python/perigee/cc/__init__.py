# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Congestion controls: the catalog, authors' files, their check in a child process, and the running kernel."""
