"""One process life of a run: what it owns, what it has met, and what it counts."""

from __future__ import annotations

import inspect
import math
import os
import random
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from perdure.core.policy import evaluate
from perdure.core.redact import Redactor
from perdure.model.errors import PerdureError, RunSuspended
from perdure.model.fork import ForkEffects, Origin
from perdure.model.policy import Decision, Policy
from perdure.model.run import Authority, Owner, RunRow
from perdure.model.toolcall import CallRow
from perdure.ports.clock import Clock
from perdure.ports.spans import SpanSink
from perdure.ports.tool import StandIns
from perdure.runtime.account import LifeAccount
from perdure.runtime.context import Context
from perdure.runtime.conversations import Conversations
from perdure.runtime.crashpoints import Knobs, Place
from perdure.runtime.frame import Frame, StepScope
from perdure.runtime.lease import LEASE_SECONDS
from perdure.runtime.ledger import Ledger
from perdure.runtime.life_files import LifeFiles
from perdure.runtime.lineage import Lineage
from perdure.runtime.operations import Operations
from perdure.runtime.registry import AnyTool, Registry
from perdure.runtime.secrets import Sources, said
from perdure.runtime.spans import LifeSpans
from perdure.runtime.stopping import Stopping
from perdure.store.runs import LifeCounts, StepRow


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of time and strictness; the defaults are right for real work.

    Args:
        quiet_seconds: how long everything must be parked before a life ends.
        wait_poll_seconds: how often ``--wait`` looks for an answer.
        sender_grace_seconds: how long a sender past its timeout is waited for before a person is asked.
        probe_timeout_seconds: how long a probe may take; without an answer by then the provider could not tell.
        interrupt_grace_seconds: how long calls in flight are waited for after a first SIGINT or SIGTERM.
        first_retry_seconds: the wait after a first failed attempt.
        late_receipt_seconds: for how long after the last renewal of the lease a receipt that the store did not take is
            tried to be kept as evidence, before a person is given the line to type.
        strict_receipts: wait for each receipt's own commit instead of letting the next one carry it.
        stand_ins: called in place of tools and probes, where a job is only tried out.
        telemetry: whether OpenTelemetry is told of spans, or a sink of one's own for them; when left out,
            ``PERDURE_OTEL`` decides, and else whether the program has configured a provider of tracers.
    """

    quiet_seconds: float = 1.0
    wait_poll_seconds: float = 0.25
    sender_grace_seconds: float = 30.0
    probe_timeout_seconds: float = 30.0
    interrupt_grace_seconds: float = 5.0
    first_retry_seconds: float = 0.5
    late_receipt_seconds: float = LEASE_SECONDS
    strict_receipts: bool = False
    stand_ins: StandIns | None = None
    telemetry: SpanSink | bool | None = None


class Observer(Protocol):
    """Is told of lives after their commits, and writes the files of runs; nothing it does may stop a run."""

    def began(self, run_id: str, life: Life, /) -> None:
        """A life has claimed its run."""

    def entering(self, run_id: str, life: Life, /) -> None:
        """What was started is settled, and the program is entered next."""

    def closing(self, run_id: str, life: Life, /) -> None:
        """The program is over, and its end is written next."""

    def left(self, run_id: str, /) -> None:
        """A life's end is committed."""

    def ended(self, run_ids: Iterable[str], /) -> None:
        """Runs were ended without a life: by their deadline, or by a person."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every life of an engine shares; clock, ids and randomness come from here."""

    ledger: Ledger
    ledger_id: str
    clock: Clock
    policy: Policy
    knobs: Knobs
    owner: Owner
    observer: Observer
    tuning: Tuning = field(default_factory=Tuning)
    sources: Sources = field(default_factory=lambda: Sources({}, {}, Redactor()))
    spans: Callable[[], SpanSink | None] = lambda: None
    random_unit: Callable[[], float] = random.random
    new_token: Callable[[], str] = lambda: _base32(10)


class _Steps:
    """What one life knows of the steps of its run, and who speaks where a phase ends."""

    def __init__(self) -> None:
        self.steps: dict[tuple[str, int], StepRow] = {}
        self.step_counts: dict[str, int] = {}
        self.open_steps: list[StepScope] = []
        self.next_step_index = 0
        self.ready: dict[str, str] = {}
        """Steps that the program has announced and not entered yet, with their phases."""
        self.outlined: dict[str, int] = {}
        self.critic: Callable[..., Any] | None = None


class _Rows(_Steps):
    """What one life knows of its rows, by their numbers, beside what the ledger says."""

    def __init__(self) -> None:
        super().__init__()
        self.unsettled: set[int] = set()
        """Effectful rows that this life has started and not yet seen settled; with none, nothing can be in doubt."""
        self.resent: set[int] = set()
        """Rows sent again with the same key while an earlier request was in doubt: a refusal of this one is no "no"."""
        self.believed_noes: set[int] = set()
        """Rows of which a probe's "no" was believed in this life; they are asked about once more at its end (#30)."""
        self.answered: set[int] = set()
        """Rows that a call of a model's turn has asked for by its handle in this life."""
        self.in_body: set[int] = set()
        """Rows of which a body was entered by this life; a started row without one was never sent."""
        self.posted_receipts: set[int] = set()
        """Rows whose receipt is on its way to the ledger: served no more, and in no doubt either."""
        self.unsaved: list[Any] = []
        """Receipts that could not be stored (``late_receipt.Unsaved``)."""
        self.entered = False
        """Whether its program is, or was, entered: one that was not has asked for nothing, and left nothing unmet."""
        self.cancel_asked = False
        """Somebody wants the end of the run, and this life has seen it."""
        self.spans: LifeSpans | None = None
        """Who is told of spans, where somebody listens."""


class Life(_Rows):
    """The state of one life; the gateway, the steps and the runner work on it."""

    def __init__(
        self,
        around: Surroundings,
        run: RunRow,
        spec: Mapping[str, Any],
        registry: Registry,
        *,
        fence: int,
        waits: bool,
        is_async: bool,
    ) -> None:
        super().__init__()
        self.around = around
        self.run = run
        self.run_id = run.run_id
        self.spec = spec
        self.registry = registry
        self.fence = fence
        self.authority = Authority(run.run_id, fence)
        self.waits = waits
        self.is_async = is_async
        self.ledger = around.ledger
        self.workspace = Path(run.workspace)
        self.vault = around.ledger.vault
        folder = Path(run.job_path).parent if run.job_path else None
        self.sources = around.sources.with_declared(spec.get("secrets") or {}, folder)
        self.files = LifeFiles()
        self.origin = Origin()
        self.lineage = Lineage()
        self.reported = False
        self.context = Context()
        self.conversations = Conversations(self.context)
        self.operations = Operations(around.clock.monotonic)
        self.account = LifeAccount()
        self.root = StepScope(f"{run.run_id}.s0", "main", "run", 0)
        self.next_call_number = self.next_checkpoint_number = 1
        self.delivered = 0
        self.last_tool_call_id: str | None = None
        self.replayed = self.settled = self.challenged = 0
        self.parked_for: list[tuple[str, CallRow | None, tuple[CallRow, ...]]] = []
        self.on_close: Callable[[], None] = _nothing
        self.closed = False
        self.refused: PerdureError | None = None
        self.loop_thread: int | None = None
        self.failure: BaseException | None = None
        self.stopping: Stopping | None = None
        """What a signal does to a sync agent in the main thread."""
        self.began_at = self.leased_at = around.clock.monotonic()
        self._decisions: dict[tuple[str, str], Decision] = {}
        self._warned: set[str] = set()

    def now(self) -> str:
        """Return the wall time for records."""
        return self.around.clock.now()

    def began(self, row: CallRow) -> bool:
        """Return whether the last attempt of a call was begun by this very life."""
        return (row.run_id, row.fence) == self.authority

    def elapsed_seconds(self) -> float:
        """Return the seconds since this life claimed the run."""
        return self.around.clock.monotonic() - self.began_at

    def active_seconds(self) -> float:
        """Return for how many of them it was at work: what it waited for people is not charged (C19)."""
        return self.elapsed_seconds() - self.operations.idle_seconds()

    def decision(self, tool: AnyTool) -> Decision:
        """Return what the policy says of a tool; asked once per life."""
        key = (tool.declaration.namespace, tool.name)
        found = self._decisions.get(key)
        if found is None:
            found = self._decisions[key] = evaluate(self.around.policy, tool.declaration)
            for warning in (*found.warnings, *key_warning(tool, found)):
                self.warn_once(warning)
        return found

    def simulates(self, decision: Decision) -> bool:
        """Return whether a call is only simulated: it has an effect, and this run is a fork that sends nothing."""
        return decision.side_effect_class.effectful and self.origin.fork_effects is ForkEffects.SIMULATE

    def warn_once(self, text: str, *, about: str = "") -> None:
        """Warn about something once per life (R083).

        Args:
            about: what it is about, where the text says more: the first such text is enough.
        """
        if (about or text) not in self._warned:
            self._warned.add(about or text)
            warnings.warn(f"perdure: {said(text)}", RuntimeWarning, stacklevel=_level_of_user_code())

    def check_open(self) -> None:
        """Refuse every engine call after the life has ended; nothing is written.

        Raises:
            RunSuspended: the life is over.
        """
        if self.closed:
            raise RunSuspended(f"this life of run {self.run_id} has ended")

    def close(self) -> None:
        """End the life: no engine call is served any more.

        The parked calls of an async agent are told only after main was cancelled, so that no exception of ours reaches
        it.
        """
        self.closed = True
        self.on_close()
        if not self.is_async:
            self.operations.wake_parked()

    def cancel(self) -> None:
        """End the life because somebody wants the end of the run; what is in flight is recorded first."""
        self.cancel_asked = True
        self.close()

    def fail(self, problem: BaseException) -> None:
        """Give up the process's authority over the run after a lost lease or a fault of the store."""
        if self.failure is None:
            self.failure = problem
        self.close()

    def counts(self, unmet: Sequence[CallRow] = ()) -> LifeCounts:
        """Return what this life did."""
        ids = tuple(row.tool_call_id for row in unmet)
        return LifeCounts(self.replayed, self.settled, self.challenged, len(ids), ids)

    def place(self, frame: Frame, tool_name: str | None = None, tool_call_id: str | None = None) -> Place:
        """Return where physical work stands, for the crash knobs."""
        return Place(frame.step.step_id, frame.step.name, frame.step.phase, tool_name, tool_call_id)

    def place_of_step(self, step: StepScope) -> Place:
        """Return the place of a step's end."""
        return Place(step.step_id, step.name, step.phase)

    def section(self, name: str) -> Mapping[str, Any]:
        """Return a section of the job, such as ``budgets``; one that is left out is empty."""
        found: Mapping[str, Any] = self.spec.get(name) or {}
        return found

    def no_duplicates(self) -> bool | None:
        """Return ``no_duplicate_external_actions`` of the job, or ``None`` where it says nothing."""
        value = self.spec.get("constraints", {}).get("no_duplicate_external_actions")
        return value if isinstance(value, bool) else None


def _nothing() -> None:
    return None


def key_warning(tool: AnyTool, decision: Decision) -> tuple[str, ...]:
    """Warn about a keyed tool that never sees its key, so that the provider cannot know it either."""
    if decision.key_ttl_seconds in (None, math.inf) or not decision.side_effect_class.effectful or tool.takes_context:
        return ()  # with a key for ever it is the name that makes a second one impossible
    names = getattr(getattr(tool.plain, "__code__", None), "co_names", ("current_call",))
    if "current_call" in names:
        return ()
    return (f"tool {tool.name} declares key_ttl, but takes no `call`: who sends call.idempotency_key?",)


_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _level_of_user_code() -> int:
    """Return the stack level of the first line outside this package, so that a warning points at the user's own."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_FOLDER):
        level, frame = level + 1, frame.f_back
    return level


def _base32(length: int) -> str:
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(length))
