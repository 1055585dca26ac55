"""What one process of a crash test is told to do; it travels as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

LOOK, LIVE, ANSWER = "look", "live", "answer"
UNANSWERED = ""
RUN_ID = "crashtest"
"""The same in every ledger, so that a job which tells its run's id asks for the same effects."""


@dataclass(frozen=True, slots=True)
class Order:
    """One process.

    Args:
        do: ``look`` (which tools are there), ``live`` (one life) or ``answer`` (what waits, as a person would).
        job: a job file, or ``file.py:main``, by its absolute path.
        mark: of its effects in the provider's log; each passage has one of its own.
        reopens: go on with the run, as ``perdure resume`` does.
        provider_url: the provider process; its log is ``provider_log``.
        values: a file with ``returns`` and ``stored``.
        counts, levels: what a clean run does, for a person who compares.
        report: the file to write what there is to tell.
    """

    do: str
    job: str
    state_dir: str
    mark: str
    provider_url: str
    provider_log: str
    values: str
    report: str
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    policies: tuple[str, ...] = ()
    reopens: bool = False
    live: bool = False
    stub_reads: bool = False
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    levels: Mapping[str, str] = field(default_factory=dict[str, str])

    def as_members(self) -> dict[str, Any]:
        """Return the order as JSON data."""
        return asdict(self)

    @staticmethod
    def of(members: Mapping[str, Any]) -> Order:
        """Return the order that ``as_members`` wrote."""
        known: dict[str, Any] = {**members, "policies": tuple(members["policies"])}
        return Order(**known)
