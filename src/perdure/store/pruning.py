"""Rows that lose their bodies: hashes, keys, outcomes, references and times stay (retention, C14)."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.core.seals import PAYLOAD_MARK, PRUNED, content_sha256
from perdure.store.statements import Statements

BATCH = 500
_NOTHING = "null"
_BESIDE_CALLS = (
    *("prune_questions", "prune_checkpoints", "prune_steps", "prune_last_error", "prune_conditions"),
    "end_pruning",
)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction has removed: the calls it looked at, their bytes, and where the next one begins."""

    calls: int
    bytes: int
    last: int | None


class PruningRows:
    """Removes bodies; everything is in transactions of bounded size, and may be broken off after any of them."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements

    def pruned_at(self, run_id: str) -> str | None:
        """Return since when a run has lost its bodies."""
        row = self._do.one("run_pruned_at", run_id=run_id)
        return None if row is None else row[0]

    def candidates(self, before: str) -> list[tuple[str, bool]]:
        """Return ended runs with bodies that did not move since a time, and whether their pruning was begun."""
        return [(row[0], bool(row[1])) for row in self._do.rows("runs_to_prune", before=before)]

    def needed_by(self, run_id: str) -> str | None:
        """Return what still needs a run's bodies, or ``None``."""
        calls, questions = self._do.one("open_business", run_id=run_id) or (0, 0)
        if calls:
            return "a call of it is not settled"
        if questions:
            return "a question of it is open"
        fork = self._do.one("forks_with_bodies", run_id=run_id)
        return None if fork is None else f"run {fork[0]} was forked from it"

    def weigh(self, run_id: str) -> Batch:
        """Return what ``strip`` would remove of a run, and remove nothing; a body that others share counts too."""
        calls, freed, last = 0, 0, 0
        while rows := list(self._do.rows("stored_bodies", run_id=run_id, after=last, limit=BATCH)):
            calls, last = calls + len(rows), rows[-1][0]
            freed += sum(
                evidence + self._weight(request) + self._weight(response) for _, request, response, evidence in rows
            )
        return Batch(calls, freed, None)

    def _weight(self, kept: str | None) -> int:
        if kept is None or PRUNED in kept:
            return 0
        if not kept.startswith(PAYLOAD_MARK):
            return len(kept)
        body = self._do.one("get_payload", sha256=kept[len(PAYLOAD_MARK) :])
        return len(kept) + (len(body[0]) if body is not None else 0)

    def begin(self, run_id: str, now: str) -> bool:
        """Mark a run as pruned before its first body goes, and return whether it was ended and not yet marked."""
        result = next((row[0] for row in self._do.told("stored_result", run_id=run_id)), None)
        return self._do.write("start_pruning", run_id=run_id, now=now, result=result) == 1

    def strip(self, run_id: str, after: int) -> Batch:
        """Remove the bodies of the next calls of a run that is marked.

        A call with a dedupe key keeps its own: another run may ask for that receipt at any time.
        """
        rows = list(self._do.rows("stored_bodies", run_id=run_id, after=after, limit=BATCH))
        freed = 0
        for call_no, request, response, evidence in rows:
            marks = [_pruned(request), _pruned(response)]
            changed = self._do.write("prune_call", call_no=call_no, request_mark=marks[0], response_mark=marks[1])
            if changed:
                freed += evidence + sum(len(text) for text in (request, response) if text and PRUNED not in text)
                self._do.write("prune_evidence", call_no=call_no)
        for _, request, response, _ in rows:
            freed += self._drop(request) + self._drop(response)
        return Batch(len(rows), freed, rows[-1][0] if len(rows) == BATCH else None)

    def _drop(self, kept: str | None) -> int:
        if kept is None or not kept.startswith(PAYLOAD_MARK) or PRUNED in kept:
            return 0
        digest = kept[len(PAYLOAD_MARK) :]
        body = self._do.one("get_payload", sha256=digest)
        dropped = self._do.write("drop_payload", sha256=digest)
        return len(body[0]) if body is not None and dropped else 0

    def finish(self, run_id: str) -> None:
        """Remove what is left of a run's bodies beside those of its calls, and say that none is left."""
        for name in _BESIDE_CALLS:
            self._do.write(name, run_id=run_id)


def _pruned(kept: str | None) -> str | None:
    """Return what stands for a body that was removed: its hash, which the chain of seals covers as before."""
    if kept is None or kept == _NOTHING or PRUNED in kept:
        return kept
    return f"{PAYLOAD_MARK}{content_sha256(kept)}{PRUNED}"
