"""The requirements on the store, its tables and the words in them, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = ()  # fmt: skip
