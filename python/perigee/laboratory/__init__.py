# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The laboratory: a queue of studies that is carried out in the background, and the web page in front of it."""
