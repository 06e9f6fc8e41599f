# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Congestion controls that were written for the kernel's own headers: modules, and `struct_ops` programs."""
