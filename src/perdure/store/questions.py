"""Rows of what people are asked: one table, one inbox query."""

from __future__ import annotations

import json
from dataclasses import dataclass

from perdure.model.run import Authority
from perdure.store.changes import Changes
from perdure.store.statements import Statements


@dataclass(frozen=True, slots=True)
class Question:
    """One row of ``approvals``; ``detail`` is JSON for the page, ``answer`` the word that was given.

    ``superseded_by`` is a later call of the kind that the program asks for instead of this one.
    """

    approval_id: str
    run_id: str
    tool_call_id: str | None
    kind: str
    status: str
    summary: str
    detail: str | None
    created_at: str
    decided_at: str | None
    actor: str | None
    answer: str | None
    request_hash: str | None = None
    expires_at: str | None = None
    superseded_by: str | None = None

    @property
    def is_notice(self) -> bool:
        """Whether it tells a person of something that has happened: no run waits for its answer."""
        told = self.kind == NOTICE_KIND and self.tool_call_id is not None
        return told and self.escalation is None and not self.is_asked and not self.wants_value

    @property
    def escalation(self) -> str | None:
        """Which failure of a call a person is asked about before the run goes on (R042), if that is what is asked."""
        if self.kind != NOTICE_KIND or not self.detail:
            return None
        found: str | None = json.loads(self.detail).get("escalation")
        return found

    @property
    def change(self) -> str | None:
        """Which change of the program a person is asked about before the run goes on, if that is what is asked."""
        if self.kind != NOTICE_KIND or self.tool_call_id is not None or not self.detail:
            return None
        found: str | None = json.loads(self.detail).get("fingerprint")
        return found

    @property
    def is_asked(self) -> bool:
        """Whether the program itself asks, by ``run.ask``."""
        return self.kind == NOTICE_KIND and "question" in json.loads(self.detail or "{}")

    @property
    def wants_value(self) -> bool:
        """Whether a call happened, and what it returned is asked for."""
        return self.kind == NOTICE_KIND and LEFT_OUT_KEY in json.loads(self.detail or "{}")


NOTICE_KIND = "question"
LEFT_OUT_KEY = "left_out"


class QuestionRows:
    """The ``approvals`` table.

    Questions are read as people see them, with marks where secrets were, so that looking needs no key; only one that is
    answered is read exactly.
    """

    def __init__(self, statements: Statements, changes: Changes) -> None:
        self._do = statements
        self._changes = changes

    def ask(
        self,
        approval_id: str,
        *,
        run_id: str,
        fence: int,
        tool_call_id: str | None,
        kind: str,
        summary: str,
        now: str,
        detail: str | None = None,
        request_hash: str | None = None,
        expires_at: str | None = None,
    ) -> None:
        """Put a question into the inbox."""
        self._do.write_one(
            "insert_approval",
            approval_id=approval_id,
            run_id=run_id,
            fence=fence,
            tool_call_id=tool_call_id,
            kind=kind,
            summary=summary,
            now=now,
            detail=detail,
            request_hash=request_hash,
            expires_at=expires_at,
        )
        self._changes.tell(run_id, "question", approval_id, kind, "open", now, tool_call_id or "")

    def get(self, approval_id: str) -> Question | None:
        """Return one question by its id."""
        row = self._do.one("get_approval", approval_id=approval_id)
        return Question(*row) if row else None

    def open_of_call(self, tool_call_id: str) -> Question | None:
        """Return the open question about a call."""
        row = next(self._do.told("open_approval_of_call", tool_call_id=tool_call_id), None)
        return Question(*row) if row else None

    def of_call(self, tool_call_id: str) -> list[Question]:
        """Return all questions ever asked about a call."""
        return [Question(*row) for row in self._do.told("approvals_of_call", tool_call_id=tool_call_id)]

    def open(self, run_id: str | None = None) -> list[Question]:
        """Return the inbox, oldest first."""
        return [Question(*row) for row in self._do.told("open_approvals", run_id=run_id)]

    def awaited(self, run_id: str) -> list[Question]:
        """Return what a run waits for, oldest first; nothing waits for a call that nobody asks for any more."""
        return [item for item in self.open(run_id) if not item.is_notice and item.superseded_by is None]

    def expired(self, now: str) -> list[Question]:
        """Return the open approvals whose time is over, oldest first."""
        return [Question(*row) for row in self._do.told("expired_approvals", now=now)]

    def supersede(self, tool_call_id: str, authority: Authority, superseded_by: str | None) -> None:
        """Say that the program asks for another call instead of this one; ``None`` says that it asks for it again."""
        self._do.write(
            "supersede_approval",
            tool_call_id=tool_call_id,
            run_id=authority.run_id,
            fence=authority.fence,
            superseded_by=superseded_by,
        )

    def answer(
        self,
        approval_id: str,
        authority: Authority,
        *,
        answer: str,
        actor: str,
        now: str,
        request_hash: str | None = None,
    ) -> None:
        """Close a question with a person's answer; single use.

        Args:
            authority: over the run that it is about.
            request_hash: of the request as the person has changed it.
        """
        self._do.write_one(
            "close_approval",
            approval_id=approval_id,
            run_id=authority.run_id,
            fence=authority.fence,
            status="answered",
            answer=answer,
            actor=actor,
            now=now,
            request_hash=request_hash,
        )

    def close_of_run(self, authority: Authority, *, answer: str, actor: str, now: str) -> int:
        """Close what is open about a run that has ended and about no call of it."""
        run_id, fence = authority
        return self._do.write("close_approvals_of_run", run_id=run_id, fence=fence, answer=answer, actor=actor, now=now)

    def close_of_call(self, tool_call_id: str, authority: Authority, *, answer: str, actor: str, now: str) -> int:
        """Close what is open about a call because evidence settled it."""
        return self._do.write(
            "close_approval_of_call",
            tool_call_id=tool_call_id,
            run_id=authority.run_id,
            fence=authority.fence,
            answer=answer,
            actor=actor,
            now=now,
        )
