# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The pages of a laboratory. To add one: a function that takes a `Visit`, and a line in `ROUTES` of its module."""
