"""Phases: what consecutive steps outside any other step have in common; where one ends, a critic may speak (R011).

A phase ends where a step of another phase begins, or where main returns. Its checkpoint is written only by the life
that worked in it; the critic's word is a receipt, so that no later life asks for it again. A critic that raises blocks
the run, as a guard does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perdure.core.codec import encode, from_tagged
from perdure.core.identity import args_hash
from perdure.core.policy import evaluate
from perdure.model.errors import PhaseVetoed, SpecError
from perdure.model.run import RunRow, RunStatus
from perdure.model.toolcall import CRITIC_NAMESPACE, CallKey
from perdure.ports.critic import MARK, Annotate, PhaseView, Veto
from perdure.ports.tool import Tool, declare
from perdure.runtime import pauses
from perdure.runtime.agent import load_agent
from perdure.runtime.door import Door
from perdure.runtime.frame import Frame, StepScope
from perdure.runtime.life import Life
from perdure.runtime.request import PLAIN_OPTIONS, CallRequest
from perdure.store.sql_store import SqlStore

GO_ON, STOP = "go on", "stop"
Critic = Callable[[PhaseView], Any]


@dataclass(slots=True)
class Period:
    """One stay of a run in a phase."""

    phase: str
    occurrence: int
    steps: list[StepScope] = field(default_factory=list[StepScope])
    open: int = 0


class Phases:
    """Which phase a life is in. Phases whose steps overlap end together, under the name of the first."""

    def __init__(self) -> None:
        self._now: Period | None = None
        self._counts: dict[str, int] = {}

    def ended_by(self, phase: str) -> Period | None:
        """Return the period that ends where a step of ``phase`` begins, if one does."""
        now = self._now
        return now if now is not None and now.phase != phase and not now.open else None

    def leave(self) -> Period | None:
        """End the present period, because main returns or another one begins, and return it."""
        now, self._now = self._now, None
        return now

    def enter(self, scope: StepScope) -> None:
        """A step outside any other begins."""
        if self._now is None:
            self._counts[scope.phase] = self._counts.get(scope.phase, 0) + 1
            self._now = Period(scope.phase, self._counts[scope.phase])
        self._now.steps.append(scope)
        self._now.open += 1

    def exit(self) -> None:
        """A step outside any other has ended."""
        if self._now is not None:
            self._now.open -= 1


def critic_of(main: Callable[..., Any]) -> Critic | None:
    """Return the function of an agent's module that is marked with ``on_phase_end``.

    Raises:
        SpecError: there are several.
    """
    names: Mapping[str, Any] = getattr(getattr(main, "__wrapped__", main), "__globals__", {})
    found = {value for value in tuple(names.values()) if inspect.isfunction(value) and getattr(value, MARK, False)}
    if len(found) > 1:
        said = ", ".join(sorted(function.__name__ for function in found))
        raise SpecError([f"several functions are marked with on_phase_end: {said}"])
    return next(iter(found), None)


def critic_for(row: RunRow, spec: Mapping[str, Any], main: Callable[..., Any]) -> Critic | None:
    """Return the critic of a run: the one that its job names, else the one that its agent's module marks.

    Raises:
        SpecError: it cannot be loaded, or there are several.
    """
    named = spec.get("critic")
    if named is not None and row.job_path is not None and (not row.status.ended or row.status is RunStatus.FAILED):
        return load_agent(str(named), Path(row.job_path).parent)
    return critic_of(main)


def review(door: Door, ended: Period | None) -> None:
    """Ask the critic about a phase that has ended.

    Raises:
        PhaseVetoed: it holds the run back, and a person has said so too.
        CallFailed: it raised.
    """
    critic = door.life.critic
    if critic is None or ended is None:
        return
    said: dict[str, str] = door.serve_sync(_request(door, critic, ended))
    if said["verdict"] == "veto":
        _obey(ended, said["text"], str(door.serve_sync(_question(door, ended, said["text"]))))


async def review_async(door: Door, ended: Period | None) -> None:
    """Do what ``review`` does without holding up the event loop."""
    critic = door.life.critic
    if critic is None or ended is None:
        return
    said: dict[str, str] = await door.serve_async(_request(door, critic, ended))
    if said["verdict"] == "veto":
        _obey(ended, said["text"], str(await door.serve_async(_question(door, ended, said["text"]))))


def _obey(ended: Period, text: str, answer: str) -> None:
    if answer != GO_ON:
        raise PhaseVetoed(f"after phase {ended.phase} the critic said: {text}; and a person: {answer}")


def _question(door: Door, ended: Period, text: str) -> CallRequest:
    asked = f"After phase {ended.phase} ({ended.occurrence}) the critic holds the run back: {text}. Go on?"
    return pauses.ask_request(door, asked, [GO_ON, STOP])


def _request(door: Door, critic: Critic, ended: Period) -> CallRequest:
    life = door.life

    if inspect.iscoroutinefunction(critic):

        async def ask() -> dict[str, str]:
            return _word(await critic(view_of(life, ended)))

        body: Callable[..., Any] = ask
    else:

        def ask_here() -> dict[str, str]:
            return _word(critic(view_of(life, ended)))

        body = ask_here
    declared = declare(ended.phase, side_effect_class="local", namespace=CRITIC_NAMESPACE)
    identity = {"phase": ended.phase, "occurrence": ended.occurrence}
    key = CallKey(CRITIC_NAMESPACE, ended.phase, args_hash(identity))
    frame = Frame(life.root, None, "")
    tool: Tool[Any, Any] = Tool(body, declared)
    request = CallRequest(tool, evaluate(pauses.PLAIN_RULES, declared), key, {}, frame, PLAIN_OPTIONS)
    request.stored, request.unlimited = encode(identity), True
    return request


def _word(said: Any) -> dict[str, str]:
    match said:
        case None:
            return {"verdict": "pass", "text": ""}
        case Veto(text):
            return {"verdict": "veto", "text": str(text)}
        case Annotate(text) | str(text):
            return {"verdict": "annotate", "text": str(text)}
        case _:
            raise TypeError(f"a critic returns None, a text, Annotate or Veto, not {type(said).__name__}")


def view_of(life: Life, ended: Period) -> PhaseView:
    """Return what a critic sees of a phase; read only when the critic is really called."""

    def look(store: SqlStore) -> PhaseView:
        ids = {scope.step_id for scope in ended.steps}
        steps = [row for row in store.steps.list(life.run_id) if row.step_id in ids]
        calls = store.endings.calls_of_steps(life.run_id, sorted(ids))
        return PhaseView(
            run_id=life.run_id,
            phase=ended.phase,
            occurrence=ended.occurrence,
            objective=str(life.spec.get("objective", "")),
            inputs=MappingProxyType(from_tagged(life.spec["inputs"])),
            steps=tuple(
                MappingProxyType({"name": row.name, "status": str(row.status), "error": row.error_detail})
                for row in steps
            ),
            calls=tuple(MappingProxyType(call) for call in calls),
            artifacts=tuple(MappingProxyType(file) for file in store.endings.newest_artifacts(life.run_id)),
        )

    return life.ledger.read(look)
