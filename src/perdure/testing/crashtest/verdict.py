"""The judge: how the lives of one passage ended and what the provider counted, in; one word and its reasons, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from perdure.testing.crashtest.counting import Difference


class Verdict(StrEnum):
    """What became of a run that was killed; the worst that is true of it."""

    FINISHED = "finished"
    WAITS = "waits"
    STUCK = "stuck"
    LOST = "lost"
    REPEATED = "repeated"

    @property
    def is_bad(self) -> bool:
        """Whether this is a fault: of the job, of a tool's declaration, or of the engine."""
        return self in (Verdict.STUCK, Verdict.LOST, Verdict.REPEATED)


WORDS = {
    Verdict.FINISHED: "went on and finished",
    Verdict.WAITS: "waits for a person",
    Verdict.STUCK: "stuck",
    Verdict.LOST: "lost an effect",
    Verdict.REPEATED: "repeated an effect",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that had to be answered before the run could go on."""

    kind: str
    tool: str
    summary: str
    answer: str

    @property
    def brief(self) -> str:
        """The question without the call's arguments, which may differ from run to run."""
        if self.kind == "challenge":
            hint = self.summary.rpartition("?")[2].strip("; ")
            return f"{self.tool}: an earlier life did one like it: the same or another?" + (
                f" ({hint})" if hint else ""
            )
        _, found, question = self.summary.rpartition("): ")
        return f"{self.tool}: {question}" if found else self.summary


@dataclass(frozen=True, slots=True)
class Passage:
    """What became of one run.

    Args:
        point: the crash point at which it was killed; None where a tool's name said when.
        where: what it stood before or after; None where the point was not reached.
        lives: of all kinds, the killed one included.
        questions: beside approvals that a clean run asks for as well.
        trouble: why it did not end as a clean run does; empty if it did.
        difference: against a clean run; None for the clean runs themselves.
        folder: where its ledger was.
    """

    point: int | None
    where: str | None
    lives: int
    questions: tuple[Asked, ...]
    trouble: str
    difference: Difference | None
    folder: str = ""
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """The worst that is true of it."""
        if self.difference is not None and self.difference.repeated:
            return Verdict.REPEATED
        if self.trouble:
            return Verdict.STUCK
        if self.difference is not None and self.difference.lost:
            return Verdict.LOST
        return Verdict.WAITS if self.questions else Verdict.FINISHED

    @property
    def reasons(self) -> list[str]:
        """What is to be said beside the verdict, one sentence each."""
        said = [self.trouble] if self.trouble else []
        if self.difference is not None:
            said += [_times(*item) for item in self.difference.repeated.items()]
            said += [_times(*item) for item in self.difference.lost.items()] if not self.trouble else []
        return said + list(dict.fromkeys(asked.brief for asked in self.questions))


def _times(identity: str, counts: tuple[int, int]) -> str:
    seen, wanted = counts
    return f"{identity} happened {seen} times, not {wanted}"


def trouble_of(life: Mapping[str, Any]) -> str:
    """Return what is wrong with a life that neither crashed, succeeded nor waits; empty if nothing is.

    Args:
        life: ``exit_code``, ``too_long``, ``document`` and ``stderr`` as its parent saw it.
    """
    document: Mapping[str, Any] = life["document"]
    status = document.get("status")
    if life["too_long"]:
        return "a resumed life did not end in time"
    if status in ("succeeded", "waiting"):
        return ""
    error: Mapping[str, Any] = document.get("error") or {}
    if status is not None:
        return f"the run {status}: {error.get('code', '')} {error.get('detail', '')}".rstrip()
    if document.get("schema") == "perdure.error/v1":
        return f"a resumed life ended with {document['code']}: {document['message']}"
    last = [line for line in str(life["stderr"]).splitlines() if line.strip()][-1:]
    return f"a resumed life ended with exit code {life['exit_code']}: {''.join(last) or 'it said nothing'}"


def tally(passages: Sequence[Passage]) -> dict[str, int]:
    """Return how many crash points had which verdict."""
    found = {str(verdict): 0 for verdict in Verdict}
    for passage in passages:
        found[passage.verdict] += 1
    return found
