# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The matrix of `perigee quic matrix`: real QUIC stacks over emulated links, cell by cell, beside TCP and ours."""
