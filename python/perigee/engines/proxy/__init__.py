# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The proxy as a service on this host."""
