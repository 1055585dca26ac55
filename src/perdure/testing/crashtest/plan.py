"""What is to be tried: the job, the crash points, and what stands in for the tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

from perdure.model.errors import UsageError

LIFE_SECONDS = 60.0
MOST_POINTS = 1_000_000
_HELP = "perdure crashtest --help"


@dataclass(frozen=True, slots=True)
class Plan:
    """One crash test.

    Args:
        job: a job file, or ``file.py:main``, by its absolute path.
        folder: scratch: ledgers, workspaces, the provider's log.
        inputs: added to those of the job.
        policies: overlays, by their absolute paths.
        points: those to try; empty for 1, 2, 3, … until a life ends clean.
        max_points: try at most so many.
        worst: kill once after each tool that has an effect, and nowhere else.
        jobs: how many lives are lived side by side.
        live: enter the tools' own bodies.
        stub_reads: stand in for reading tools as well, and for local ones where there is a value.
        returns: what a stand-in gives back, by the tool's name, ``memo:NAME``, or ``*`` for any.
        stored: calls of an earlier run, each with ``tool``, ``request`` and ``response`` as the ledger has them.
        life_seconds: how long one life may last before it counts as stuck.
        keep: keep every ledger, also of the points where all was well.
    """

    job: str
    folder: Path
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    policies: tuple[str, ...] = ()
    points: tuple[int, ...] = ()
    max_points: int | None = None
    worst: bool = False
    jobs: int = 1
    live: bool = False
    stub_reads: bool = False
    returns: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stored: tuple[Mapping[str, Any], ...] = ()
    life_seconds: float = LIFE_SECONDS
    keep: bool = False

    @property
    def goes_to_the_end(self) -> bool:
        """Whether points are tried until a life ends clean."""
        return not self.points and not self.worst

    def numbers(self) -> Iterator[int]:
        """Yield the points to try, in order; endless where the plan goes to the end."""
        return islice(self.points if not self.goes_to_the_end else count(1), self.max_points)


def parse_points(text: str) -> tuple[int, ...]:
    """Return the numbers that ``1-20,33`` means, in order and each once.

    Raises:
        UsageError: it is no such list.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        words = (first, last) if dash else (first, first)
        if not all(word.isascii() and word.isdigit() and 0 < int(word) <= MOST_POINTS for word in words):
            raise UsageError(f"--points {text}: {part.strip()!r} is no number from 1 and no range such as 1-20",
                             next_command=_HELP)  # fmt: skip
        low, high = map(int, words)
        if low > high:
            raise UsageError(f"--points {text}: {part.strip()!r} runs backwards", next_command=_HELP)
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def parse_returns(pairs: Sequence[str]) -> dict[str, Any]:
    """Return what each ``TOOL=JSON`` says that the stand-in for a tool gives back, as the ledger writes it.

    Raises:
        UsageError: one has no ``=`` or no tool, is no JSON, or names a tool twice.
    """
    import json

    found: dict[str, Any] = {}
    for pair in pairs:
        tool, equals, text = pair.partition("=")
        if not equals or not tool.strip():
            raise UsageError(
                f"--returns {pair}: write TOOL=JSON, such as send_mail='{{\"id\": 1}}'", next_command=_HELP
            )
        if tool in found:
            raise UsageError(f"--returns {pair}: {tool} is given twice", next_command=_HELP)
        try:
            found[tool] = json.loads(text)
        except ValueError as problem:
            raise UsageError(
                f"--returns {pair}: {text!r} is no JSON ({problem}); text is written as '\"text\"'", next_command=_HELP
            ) from None
    return found
