"""What people decided about a run, as a completion report tells it: answers, grants, and what an edit has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.core.summary import inline, section
from perdure.model.run import Change

GRANT, CANCEL = "grant", "cancel"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of a person.

    Args:
        kind: what it is about: a kind of question, ``verdict`` on a call about which nothing was asked, ``grant`` or
            ``cancel``.
        about: the call, with its arguments shortened, or the question.
        says: the word that was given: ``approved denied happened did_not_happen abandon same another answered`` …
        answer: the words of an answer, or what was granted.
        changes: the arguments that are sent otherwise than the program asked for, as tagged JSON data.
    """

    at: str
    actor: str
    kind: str
    says: str
    tool_call_id: str | None = None
    about: str = ""
    answer: str | None = None
    reason: str = ""
    changes: tuple[Change, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """Return the decision as JSON data."""
        return {
            "at": self.at,
            "actor": self.actor,
            "kind": self.kind,
            "says": self.says,
            "tool_call_id": self.tool_call_id,
            "about": self.about or None,
            "answer": self.answer,
            "reason": self.reason or None,
            "changes": [change._asdict() for change in self.changes],
        }

    def as_markdown(self) -> str:
        """Return the decision as an item of a list."""
        subject = [f"`{self.tool_call_id}`"] if self.tool_call_id else []
        about = [inline(self.about)] if self.about else []
        parts = [" ".join([f"{self.actor}: {self.says}", *subject, *about])]
        parts += [inline(self.answer)] if self.answer is not None else []
        parts += [f"{change.argument} {_value(change.was)} → {_value(change.now)}" for change in self.changes]
        parts += [f"because {inline(self.reason)}"] if self.reason else []
        return f"- {'; '.join(parts)} ({self.at})"


def _value(value: Any) -> str:
    return inline(json.dumps(value, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class Decisions:
    """The newest decisions, oldest first, and how many there are."""

    shown: tuple[Decision, ...] = ()
    in_all: int = 0

    def as_document(self) -> dict[str, Any]:
        """Return them as JSON data."""
        return {"in_all": self.in_all, "decisions": [item.as_document() for item in self.shown]}

    def as_section(self, run_id: str) -> list[str]:
        """Return them as a part of the page."""
        lines = [item.as_markdown() for item in self.shown]
        more = f"perdure runs watch {run_id} --since start"
        return section(f"Decided by people ({self.in_all})", lines, left_out=self.in_all - len(lines), more=more)


@dataclass(frozen=True, slots=True)
class Told:
    """What the evidence of a verdict tells beside its word.

    Args:
        facts: its ``detail``, decoded.
    """

    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def reason(self) -> str:
        """Why, in the person's words."""
        return str(self.facts.get("reason") or "")

    @property
    def answer(self) -> str | None:
        """The words of an answer, or of which call this one is the same."""
        found = self.facts.get("answer") or self.facts.get("same_as")
        return None if found is None else str(found)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What an edit has changed."""
        return changed(self.facts.get("asked_for") or {}, self.facts.get("edited") or {})


def changed(was: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return the arguments in which two requests differ, in the order of the newer one."""
    names = dict.fromkeys((*now, *was))
    return tuple(Change(n, was.get(n), now.get(n)) for n in names if was.get(n) != now.get(n))


def newest(found: Sequence[Decision], limit: int) -> Decisions:
    """Return the newest decisions, oldest first."""
    ordered = sorted(found, key=lambda item: item.at)
    return Decisions(tuple(ordered[-limit:]), len(ordered))
