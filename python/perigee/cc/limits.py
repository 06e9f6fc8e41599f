# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The limits of authors' code in processes of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CodeLimits:
    """Limits of an author's code.

    Attributes:
        stall_s: processor time without progress, s.
        memory_bytes: address space of each process.
        processor_s: processor time of a process in all, whole seconds, which the kernel ends it after; none: any.
    """

    stall_s: float = 10.0
    memory_bytes: int = 4 << 30
    processor_s: int | None = None


DEFAULT_LIMITS = CodeLimits()
