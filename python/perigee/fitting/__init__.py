# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A link profile out of measurements: a process of the link at a time, each with its source and its uncertainty.

`series` reads what was measured, `delay`, `loss`, `period` and `rate` estimate, `profile` writes the file and `check`
lays what it says beside what was measured. Estimators and their limits: `docs/models/fit.md`.
"""
