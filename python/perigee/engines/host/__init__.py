# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""This host: its equipment, TCP settings, socket buffers and memory."""
