"""The completion report of a run that has ended, as JSON and as a page (R119, R126)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdure.core.decisions import Decisions
from perdure.core.forking import fork_counts
from perdure.core.summary import CallLine, LifeLine, counted, file_document, file_markdown, inline, section
from perdure.model.artifact import CheckedArtifact

SCHEMA = "perdure.completion/v1"


@dataclass(frozen=True, slots=True)
class Lines:
    """Calls of one kind: the newest, and how many there are."""

    shown: tuple[CallLine, ...] = ()
    in_all: int = 0

    def as_document(self) -> dict[str, Any]:
        """Return them as JSON data."""
        return {"in_all": self.in_all, "calls": [line.as_document() for line in self.shown]}

    def as_section(self, title: str, run_id: str) -> list[str]:
        """Return them as a part of the page."""
        lines = [line.as_markdown() for line in self.shown]
        more = f"perdure calls ls {run_id}"
        return section(f"{title} ({self.in_all})", lines, left_out=self.in_all - len(lines), more=more)


@dataclass(frozen=True, slots=True)
class Completion:
    """How a run ended, and everything a person asks next.

    Args:
        result: what main returned, as tagged JSON data.
        calls: how many tool calls of each class are in each state.
        effects: the newest effects with their receipts.
        replayed: effects of earlier lives that the last life met and did not make again.
        settled: calls whose outcome was lost and was settled, with who decided on what evidence.
        challenged: calls that looked like an effect done before.
        unmet: effects of an earlier life that the last one has not asked for (R5).
        in_doubt: calls of which nobody knows yet whether they happened.
        decisions: what people answered, granted and changed.
        fork: of a fork, where it comes from, and how many tool calls it has inherited and simulated.
        final_artifact: the path of the artifact recorded last (R017).
        commands: what a person may type now, by what it does.
    """

    run_id: str
    name: str
    objective: str
    status: str
    reason: str | None
    error_code: str | None
    error_detail: str | None
    result: Any
    created_at: str
    ended_at: str
    workspace: str
    lives: tuple[LifeLine, ...]
    lives_in_all: int
    calls: Mapping[str, Mapping[str, int]]
    effects: Lines
    replayed: Lines
    settled: Lines
    challenged: Lines
    unmet: Lines
    in_doubt: Lines
    decisions: Decisions
    fork: Mapping[str, Any] | None
    files: tuple[CheckedArtifact, ...]
    files_in_all: int
    final_artifact: str | None
    commands: Mapping[str, str]

    def as_document(self) -> dict[str, Any]:
        """Return the ``perdure.completion/v1`` document."""
        error = {"code": self.error_code, "detail": self.error_detail} if self.error_code else None
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "name": self.name,
            "objective": self.objective,
            "status": self.status,
            "reason": self.reason,
            "error": error,
            "result": self.result,
            "created_at": self.created_at,
            "ended_at": self.ended_at,
            "workspace": self.workspace,
            "lives": [life.as_document() for life in self.lives],
            "lives_in_all": self.lives_in_all,
            "calls": {kind: dict(states) for kind, states in self.calls.items()},
            "effects": self.effects.as_document(),
            "replayed": self.replayed.as_document(),
            "settled": self.settled.as_document(),
            "challenged": self.challenged.as_document(),
            "unmet": self.unmet.as_document(),
            "in_doubt": self.in_doubt.as_document(),
            "decisions": self.decisions.as_document(),
            "fork": None if self.fork is None else dict(self.fork),
            "artifacts": [file_document(found) for found in self.files],
            "artifacts_in_all": self.files_in_all,
            "final_artifact": self.final_artifact,
            "commands": dict(self.commands),
        }

    def as_markdown(self) -> str:
        """Return the page."""
        run_id = self.run_id
        lines = [
            *self._head(),
            *section("Artifacts", map(file_markdown, self.files), left_out=self.files_in_all - len(self.files)),
            *section("Calls by class", counted(self.calls)),
            *self.in_doubt.as_section("In doubt still: nobody knows whether they happened", run_id),
            *self.unmet.as_section("Done by an earlier life, not asked for by the last", run_id),
            *self.decisions.as_section(run_id),
            *self.effects.as_section("Effects, with their receipts", run_id),
            *self.settled.as_section("Settled after their outcome was lost", run_id),
            *self.replayed.as_section("Replayed effects: met by the last life, not made again", run_id),
            *self.challenged.as_section("Challenged", run_id),
            *self._lives(),
            *section("What to type", [f"- {what}: {inline(text)}" for what, text in self.commands.items()]),
        ]
        return "\n".join(lines) + "\n"

    def _head(self) -> list[str]:
        because = f" ({self.reason})" if self.reason else ""
        facts = [
            f"- status: **{self.status}**{because}",
            *([f"- error: {self.error_code}: {inline(self.error_detail or '')}"] if self.error_code else []),
            *([f"- result: {inline(_json(self.result))}"] if self.result is not None else []),
            *([f"- objective: {inline(self.objective)}"] if self.objective else []),
            *([f"- fork of {_fork_words(self.fork)}"] if self.fork is not None else []),
            f"- began {self.created_at}, ended {self.ended_at}",
            *([f"- final artifact: {inline(self.final_artifact)}"] if self.final_artifact else []),
            f"- workspace: {inline(self.workspace)}",
        ]
        return [f"# {self.name}: {self.status}", "", f"Run `{self.run_id}`.", "", *facts]

    def _lives(self) -> list[str]:
        shown = [life.as_markdown() for life in self.lives]
        return section(f"Lives ({self.lives_in_all})", shown, left_out=self.lives_in_all - len(shown))


def _fork_words(fork: Mapping[str, Any]) -> str:
    origin = fork["forked_from"] or f"{fork['parent_run_id']} from its beginning"
    missing = "".join(f"; not made here, where calls are simulated: {inline(path)}" for path in fork["not_made"])
    return f"{origin}, {fork['effects']}: {fork_counts(fork['inherited'], fork['simulated'])}{missing}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
