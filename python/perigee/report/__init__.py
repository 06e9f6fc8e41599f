# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reports: a finished results folder becomes one self-contained page, and figures and tables for papers."""
