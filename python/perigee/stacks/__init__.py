# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""QUIC stacks of others: where each comes from, how it is installed, and the commands of its server and client."""
