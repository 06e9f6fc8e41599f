# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The criteria of RFC 9743 (BCP 133, March 2025), in its order, and further ones."""

from __future__ import annotations

from perigee.evaluation.behaviour import BEHAVIOUR
from perigee.evaluation.environments import ENVIRONMENTS
from perigee.evaluation.further import FURTHER

VERSION = "2"
"""Version of criteria, thresholds and rules of decision, with which verdicts of other releases are compared."""
CRITERIA = (*BEHAVIOUR, *ENVIRONMENTS, *FURTHER)
"""All criteria: those of the RFC in its order, then further ones."""
