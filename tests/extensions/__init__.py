# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Extensions of the project, carried out on a copy; see README.md."""
