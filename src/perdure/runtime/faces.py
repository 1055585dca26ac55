"""What ``main`` gets: ``Run`` for a sync agent, ``AsyncRun`` for an async one; two thin faces of one door."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perdure.core.codec import from_tagged
from perdure.core.packet import ResumePacket
from perdure.model.artifact import Artifact
from perdure.model.errors import UsageError
from perdure.model.secret import Secret
from perdure.runtime import artifacts, pauses, saying, stop_conditions
from perdure.runtime.checkpointing import STEP_BOUNDARY, write_checkpoint
from perdure.runtime.door import Door, parse_options
from perdure.runtime.frame import current_step
from perdure.runtime.phases import Phases
from perdure.runtime.request import CallRequest
from perdure.runtime.sessions import AsyncProviderSession, ProviderSession, note_prompt
from perdure.runtime.steps import Step, outline, skip_step
from perdure.runtime.turns import Asker, AsyncTurn, ReadCalls, Turn, turn_request
from perdure.runtime.workspace import WORK_PRODUCTS, measure


class _Face:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._life = door.life
        self.phases = Phases()
        """Where the run stands among its phases; the engine's own."""

    @property
    def door(self) -> Door:
        """The way in to the gateway; the engine's own."""
        return self._door

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._life.run_id

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The inputs of the job, read-only."""
        return MappingProxyType(from_tagged(self._life.spec["inputs"]))

    @property
    def workspace(self) -> Path:
        """The run's own folder; it survives between lives."""
        return self._life.workspace

    @property
    def work_products(self) -> Path:
        """The folder of the workspace that results are meant for."""
        return self._life.workspace / WORK_PRODUCTS

    @property
    def resume_packet(self) -> ResumePacket | None:
        """What an earlier life has left, as this one began; ``None`` in the first; ``str()`` is the page (R113)."""
        return self._life.files.packet

    @property
    def replay_note(self) -> str:
        """What to append to a model's continuation prompt, so that nothing is done again; empty at first (R118)."""
        packet = self._life.files.packet
        return "" if packet is None else packet.replay_note

    @property
    def attempt(self) -> int:
        """The number of this life, from 1."""
        return self._life.run.attempt + 1

    def step(self, name: str, *, phase: str | None = None) -> Step:
        """Open a named step; use it with ``with`` or ``async with``.

        Args:
            name: the step's name; the k-th of that name keeps its row in every life.
            phase: ``plan crawl synthesize render upload send notify`` or a word of your own; the name when left out.
        """
        if not name:
            raise UsageError("run.step needs a name")
        for text in (name, phase or name):
            self._life.vault.refuse_in_name("step", text)
        return Step(self._door, self.phases, name, phase or name)

    def outline(self, *steps: str | tuple[str, str]) -> None:
        """Announce the steps that are to come, in their order: they are listed as ready, and a checkpoint knows them.

        Args:
            steps: names, or (name, phase); one that is announced twice is to be entered twice.
        """
        outline(self._life, [(item, item) if isinstance(item, str) else item for item in steps])

    def skip_step(self, name: str, *, phase: str | None = None, reason: str = "") -> None:
        """Say that a step is left out on purpose; it is listed as skipped, with the reason.

        Args:
            name: the step's name, counted as ``step`` counts it.
            phase: as for ``step``.
            reason: why.
        """
        skip_step(self._life, name, phase or name, reason)

    def secret(self, name: str) -> Secret:
        """Return a secret to be handed to a tool: only the tool gets its value, and only its name is stored.

        Args:
            name: declared under ``secrets`` in the job, or the name of an environment variable.
        """
        return Secret(name)

    def satisfy(self, condition: str, *, evidence: Any = None) -> None:
        """Say that a named stop condition of the job holds, and why; it stands in the ledger from then on.

        Args:
            condition: one of the names under ``stop_conditions``.
            evidence: anything with a JSON form; the id of a call must be that of one that succeeded.

        Raises:
            UsageError: the job has no such condition, or the evidence is none.
        """
        saying.satisfy(self._life, condition, evidence)

    def _sleep(self, seconds: float | str | None, until: str | datetime | None) -> CallRequest:
        return pauses.sleep_request(self._door, seconds, until)

    def _ask(self, question: str, options: Sequence[str] | None) -> CallRequest:
        return pauses.ask_request(self._door, question, options)

    def _measured(self, path: str | Path) -> Artifact:
        life = self._life
        life.check_open()
        relative = os.path.relpath(path, life.workspace) if os.path.isabs(path) else os.fspath(path)
        found = measure(life.workspace, relative)
        if found is None:
            raise UsageError(f"run.artifact: {relative} is no file of the workspace {life.workspace}")
        return found

    def _memo(self, name: str, function: Any, args: Any, kwargs: Any, key: Any) -> CallRequest:
        return self._door.memo_request(name, function, args, kwargs, key)

    def _turn(
        self, name: str, call_model: Any, messages: Any, tools: Any, calls: Any, key: Any
    ) -> tuple[CallRequest, Asker]:
        return turn_request(self._door, name, call_model, messages, tools=tools, read=calls, key=key)

    def _call(self, tool: Any, args: Any, kwargs: dict[str, Any]) -> CallRequest:
        options = parse_options(
            kwargs.pop("repeat_of", None), kwargs.pop("dedupe_key", None), kwargs.pop("on_challenge", "wait")
        )
        self._life.vault.refuse_in_name("dedupe_key", options.dedupe_key or "")
        request = self._door.request(self._door.find_tool(tool), args, kwargs, options)
        request.raw_name = tool if isinstance(tool, str) else None
        return request


class Run(_Face):
    """The run of ``def main(run)``."""

    @property
    def provider_session(self) -> ProviderSession:
        """The session that a model's provider keeps of the conversation."""
        return ProviderSession(self._life)

    def prompt_note(self, text: str, *, model: str | None = None) -> None:
        """Store what the agent is told to do now; a later life, or who looks at the run, finds it (R108).

        Args:
            text: the prompt; another one than in the life before is told as a change.
            model: the model it is told to; likewise.
        """
        life = self._life
        life.check_open()
        life.ledger.run(lambda store: note_prompt(life, store, text, model))

    def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool, by itself or by name, with options beside its arguments.

        Args:
            tool: a tool or its registered name.
            args, kwargs: the tool's arguments; ``repeat_of=``, ``dedupe_key=`` and
                ``on_challenge="wait"|"raise"|"return"`` are options of the call.

        Raises:
            CallError: the call did not succeed; the same error in every life.
        """
        return self._door.serve_sync(self._call(tool, args, kwargs))

    def memo(self, name: str, function: Callable[..., Any], /, *args: Any, key: Any = None, **kwargs: Any) -> Any:
        """Compute something once and store it; calls made inside count as met with it.

        Args:
            name: what it is called in the ledger.
            function: what computes it, called with ``args`` and ``kwargs``.
            key: the identity, where the arguments are no JSON.
        """
        return self._door.serve_sync(self._memo(name, function, args, kwargs, key))

    def turn(
        self,
        name: str,
        call_model: Callable[[Any], Any],
        messages: Sequence[Any],
        *,
        tools: Iterable[Any] | None = None,
        calls: ReadCalls | None = None,
        key: Any = None,
    ) -> Turn:
        """Ask a model once, and store its answer and the calls that it asks for together.

        Args:
            name: of the loop, the same in each of its turns.
            call_model: called with ``messages``; gives back an answer of OpenAI's or Anthropic's form, a text, or
                ``{"content": …, "tool_calls": [{"name": …, "args": {…}}]}``.
            messages: the conversation; it is the turn's identity, and what the model has seen is read from it.
            tools: those the model was offered; all tools of the run when left out.
            calls: reads the calls out of an answer of another form, as ``{"name": …, "args": {…}, "id": …}``.
            key: what else the answer depends on, such as the name of the model.

        Raises:
            CallFailed: the model could not be asked, or its answer is of no known form.
        """
        request, asker = self._turn(name, call_model, messages, tools, calls, key)
        return Turn(asker, self._door.serve_sync(request))

    def unmet_conditions(self) -> tuple[str, ...]:
        """Return what the job still expects, one sentence each, by receipts, files and recorded evidence (R041).

        It is what would make the run fail if ``main`` returned now: a loop that goes on while something is unmet ends
        when all of it holds, whatever a model says. What was unmet in an earlier life is told again at the same place.

        Raises:
            UsageError: the job has no stop condition and no expected output.
            ConditionsUnmet: an effect has happened too often, so that the run cannot succeed any more.
        """
        request, found = stop_conditions.asked(self._door)
        return found if request is None else tuple(self._door.serve_sync(request))

    def usage(self, *, tokens: int = 0, usd: float | Decimal = 0) -> None:
        """Report what the program has used beside its turns; counted once, whatever becomes of the process.

        A turn's answer that tells its usage is counted by itself.

        Args:
            tokens: of a model.
            usd: money, in US dollars.

        Raises:
            UsageError: the amounts are none.
        """
        self._door.serve_sync(saying.usage_request(self._door, tokens, usd))

    def now(self) -> str:
        """Return the present as ISO-8601 UTC, the same in every life."""
        return str(self.memo("now", self._life.now))

    def sleep(self, seconds: float | str | None = None, *, until: str | datetime | None = None) -> None:
        """Wait; the moment is stored, so that a restart does not begin anew.

        Under a minute the process waits. Longer, the life ends and the run waits (exit code 10): resume it then.

        Args:
            seconds: how long, in seconds or as ``10m``; counted from where the first life came here.
            until: a moment with a time zone instead, as ISO-8601 text or a ``datetime``.
        """
        self._door.serve_sync(self._sleep(seconds, until))

    def ask(self, question: str, *, options: Sequence[str] | None = None) -> str:
        """Ask a person, and return the answer, the same in every life; the run waits for it.

        Args:
            question: its text, with the options, is its identity.
            options: what may be answered; anything when left out.
        """
        return str(self._door.serve_sync(self._ask(question, options)))

    def checkpoint(self) -> str:
        """Write a checkpoint here and return its id."""
        life = self._life
        life.check_open()
        scope = current_step.get() or life.root
        return life.ledger.run(lambda store: write_checkpoint(life, store, scope, STEP_BOUNDARY))

    def artifact(self, path: str | Path) -> Artifact:
        """Record a file of the workspace with its SHA-256, so that packets and reports tell of it (R061).

        Args:
            path: relative to the workspace, or absolute and inside it.

        Raises:
            UsageError: there is no such file, or it is outside the workspace.
        """
        life, found = self._life, self._measured(path)
        life.ledger.run(lambda store: artifacts.record(life, store, found))
        return found


class AsyncRun(_Face):
    """The run of ``async def main(run)``: the same names, awaited."""

    @property
    def provider_session(self) -> AsyncProviderSession:
        """The session that a model's provider keeps of the conversation."""
        return AsyncProviderSession(self._life)

    async def prompt_note(self, text: str, *, model: str | None = None) -> None:
        """Store what the agent is told to do now, and the model it is told to. Arguments as in ``Run.prompt_note``."""
        from perdure.runtime.drive_async import commit

        life = self._life
        life.check_open()
        await commit(life, lambda store: note_prompt(life, store, text, model))

    def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call a tool; a sync tool runs in a thread. Arguments and errors as in ``Run.call``."""
        return self._door.refused() or self._door.serve_async(self._call(tool, args, kwargs))

    def memo(
        self, name: str, function: Callable[..., Any], /, *args: Any, key: Any = None, **kwargs: Any
    ) -> Awaitable[Any]:
        """Compute something once and store it. Arguments as in ``Run.memo``."""
        return self._door.refused() or self._door.serve_async(self._memo(name, function, args, kwargs, key))

    async def turn(
        self,
        name: str,
        call_model: Callable[[Any], Any],
        messages: Sequence[Any],
        *,
        tools: Iterable[Any] | None = None,
        calls: ReadCalls | None = None,
        key: Any = None,
    ) -> AsyncTurn:
        """Ask a model once, and store its answer and the calls that it asks for together. As ``Run.turn``."""
        if refused := self._door.refused():
            await refused
        request, asker = self._turn(name, call_model, messages, tools, calls, key)
        return AsyncTurn(asker, await self._door.serve_async(request))

    async def unmet_conditions(self) -> tuple[str, ...]:
        """Return what the job still expects, by evidence. As ``Run.unmet_conditions``."""
        if refused := self._door.refused():
            await refused
        request, found = stop_conditions.asked(self._door)
        return found if request is None else tuple(await self._door.serve_async(request))

    async def usage(self, *, tokens: int = 0, usd: float | Decimal = 0) -> None:
        """Report what the program has used beside its turns. As ``Run.usage``."""
        if refused := self._door.refused():
            await refused
        await self._door.serve_async(saying.usage_request(self._door, tokens, usd))

    async def now(self) -> str:
        """Return the present as ISO-8601 UTC, the same in every life."""
        return str(await self.memo("now", self._life.now))

    async def sleep(self, seconds: float | str | None = None, *, until: str | datetime | None = None) -> None:
        """Wait; the moment is stored, so that a restart does not begin anew. Arguments as in ``Run.sleep``."""
        if refused := self._door.refused():
            await refused
        await self._door.serve_async(self._sleep(seconds, until))

    async def ask(self, question: str, *, options: Sequence[str] | None = None) -> str:
        """Ask a person, and return the answer, the same in every life. Arguments as in ``Run.ask``."""
        if refused := self._door.refused():
            await refused
        return str(await self._door.serve_async(self._ask(question, options)))

    async def checkpoint(self) -> str:
        """Write a checkpoint here and return its id."""
        from perdure.runtime.drive_async import commit

        life = self._life
        life.check_open()
        scope = current_step.get() or life.root
        return str(await commit(life, lambda store: write_checkpoint(life, store, scope, STEP_BOUNDARY)))

    async def artifact(self, path: str | Path) -> Artifact:
        """Record a file of the workspace with its SHA-256. Arguments and errors as in ``Run.artifact``."""
        from asyncio import to_thread

        from perdure.runtime.drive_async import commit

        life, found = self._life, await to_thread(self._measured, path)
        await commit(life, lambda store: artifacts.record(life, store, found))
        return found
