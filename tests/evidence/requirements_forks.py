"""The requirements on forks, fingerprints and provider sessions, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = ()  # fmt: skip
