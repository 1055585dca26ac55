"""A run: its states, its immutable specification, and what one life of it ended with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from perdure.model.fork import Origin


class RunStatus(StrEnum):
    """The six states of a run (R014)."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether only an explicit resume can move the run again."""
        return self in (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)


class Authority(NamedTuple):
    """The right to write the rows of one run: whose they are, and under which fence.

    Fences are counted per run: two lives of two runs may hold the same number, which alone gives no right to anything.
    """

    run_id: str
    fence: int


class WaitReason(StrEnum):
    """What a waiting run waits for."""

    IN_DOUBT = "in_doubt"
    APPROVAL = "approval"
    QUESTION = "question"
    CHALLENGE = "challenge"
    TIMER = "timer"
    BUDGET = "budget"
    STORAGE = "storage"
    CRASH_LOOP = "crash_loop"


class StepStatus(StrEnum):
    """The six words of a step (R019)."""

    READY = "ready"
    RUNNING = "running"
    BLOCKED = "blocked"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The immutable contract of a run (R016, document 000 §6); stored as canonical JSON with its hash.

    Args:
        name: what the run is called in lists.
        agent: ``module:function`` or ``file.py:function``.
        inputs: what ``run.inputs`` returns.
        objective, constraints, budgets, deadline, stop_conditions, escalation, artifacts, critic: as in a job file.
    """

    name: str
    agent: str
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    objective: str = ""
    constraints: Mapping[str, Any] = field(default_factory=dict[str, Any])
    budgets: Mapping[str, Any] = field(default_factory=dict[str, Any])
    deadline: str | None = None
    stop_conditions: tuple[Any, ...] = ()
    escalation: Mapping[str, Any] = field(default_factory=dict[str, Any])
    artifacts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    critic: str | None = None
    on_change: str | None = None

    def as_document(self) -> dict[str, Any]:
        """Return the specification as the JSON document that is stored and hashed; of secrets it has the sources."""
        named: dict[str, Any] = {"secrets": dict(self.secrets)} if self.secrets else {}
        if self.critic is not None:
            named["critic"] = self.critic
        if self.on_change is not None:  # a key that is left out changes no specification's hash
            named["on_change"] = self.on_change
        return {
            "name": self.name,
            "agent": self.agent,
            "inputs": dict(self.inputs),
            "objective": self.objective,
            "constraints": dict(self.constraints),
            "budgets": dict(self.budgets),
            "deadline": self.deadline,
            "stop_conditions": list(self.stop_conditions),
            "escalation": dict(self.escalation),
            "artifacts": dict(self.artifacts),
            **named,
        }


@dataclass(frozen=True, slots=True)
class Owner:
    """Who a process is, so that another one can tell for certain whether it is gone (semantics #35)."""

    host: str
    boot_id: str
    pid: int
    start_time: int


SCOPE_AGENT = "run_scope"
"""What stands as the agent of a run that a script puts around itself."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One row of ``runs``."""

    run_no: int
    run_id: str
    name: str
    status: RunStatus
    reason: str | None
    entrypoint: str
    spec_json: str
    spec_hash: str
    created_at: str
    updated_at: str
    attempt: int
    lease_fence: int
    lease_owner: str | None
    lease_expires_at: str | None
    deadline_at: str | None
    ended_by_call_id: str | None
    result: str | None
    error_code: str | None
    error_detail: str | None
    workspace: str
    job_path: str | None
    cancel_requested_at: str | None
    policies: tuple[str, ...] = ()
    """The overlays that the run was started under, beside those of its job file; it is resumed under them too."""

    @property
    def authority(self) -> Authority:
        """The right to write its rows as long as nobody else claims it."""
        return Authority(self.run_id, self.lease_fence)

    @property
    def is_scope(self) -> bool:
        """Whether its program is a script around which a ``run_scope`` stands: to start it again goes on with it."""
        said: Any = json.loads(self.spec_json).get("agent")
        return bool(said == SCOPE_AGENT)


class Change(NamedTuple):
    """One argument that differs from an earlier call of the kind; ``None`` stands for one that is not there."""

    argument: str
    was: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that a run waits for, with the commands that answer it.

    Args:
        arguments: of the call, exactly as they would be sent, as tagged JSON data.
        expires_at: when the call is refused if nobody has agreed to it.
        superseded_by: the call that the program asks for now instead of this one.
        changed_from: the newest earlier call of the kind, from which ``changes`` are told.
    """

    kind: str
    id: str
    tool_call_id: str | None
    tool_name: str | None
    since: str
    summary: str
    commands: tuple[str, ...]
    arguments: Mapping[str, Any] | None = None
    expires_at: str | None = None
    superseded_by: str | None = None
    changed_from: str | None = None
    changes: tuple[Change, ...] = ()


LATER = "deadline=+2h"
"""What is granted to a run whose deadline is over."""


@dataclass(frozen=True, slots=True)
class WayOn:
    """What works next for a run, as ``core.ways_on`` decides it.

    Args:
        resume: the line that goes on with it; what must come first stands behind a ``#``.
        fork: the line that makes a new run of it, where nothing goes on with it itself.
        after: what must come first, alone.
        why: what keeps it from going on.
    """

    resume: str = ""
    fork: str = ""
    after: str = ""
    why: str = ""

    @property
    def line(self) -> str:
        """The line to type, or nothing."""
        return self.resume or self.fork

    @property
    def said(self) -> str:
        """The line that a person reads."""
        if self.resume:
            return f"go on with: {self.resume}"
        return ": ".join(text for text in (self.why, self.fork) if text)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What ``run`` and ``resume`` return: where the run stands when this life has ended.

    ``replayed``, ``settled`` and ``challenged`` count tool calls of the last life.
    """

    run_id: str
    name: str
    status: RunStatus
    reason: str | None
    result: Any
    calls: Mapping[str, int]
    replayed: int
    settled: int
    challenged: int
    unmet: int
    duplicates_found: int
    attempt: int
    waiting_for: tuple[Waiting, ...]
    workspace: str
    resume_command: str
    error_code: str | None = None
    error_detail: str | None = None
    told_result: str | None = None
    """The result as JSON for people: marks stand where secrets were."""
    origin: Origin = field(default_factory=Origin)
    """How the run was started, and of which run it is a fork."""
    inherited: int = 0
    """How many calls a fork has inherited."""
    changes: tuple[str, ...] = ()
    """What has changed since the life before the last one: tools, policies, code, versions."""
    simulated: int = 0
    """How many calls a fork has simulated: nothing was sent for them."""
    note: str = ""
    """What the status alone does not say: that a running run's owner is gone, or that nothing was run now."""
    way: WayOn = field(default_factory=WayOn)
    """What works next."""

    @property
    def go_on_command(self) -> str:
        """What lets the run go on: with a grant where a budget or the deadline stopped it; nothing where nothing does.

        Nothing does where the run succeeded or was cancelled, or where a person's denial ended it.
        """
        return self.way.resume

    @property
    def error_said(self) -> str:
        """What ended the run, in one line; of a run whose bodies were removed only the code is left."""
        return ": ".join(text for text in (self.error_code, self.error_detail) if text)

    @property
    def way_on(self) -> str:
        """The line that a person reads of how the run goes on; empty where it has succeeded or was cancelled."""
        return self.way.said

    @property
    def exit_code(self) -> int:
        """The process exit code that contract.md gives to this outcome."""
        if self.status is RunStatus.SUCCEEDED:
            return 0
        if self.status is RunStatus.CANCELLED:
            return 11
        if self.status is RunStatus.WAITING:
            return _WAITING_EXIT.get(self.reason or "", 6)
        return {"deadline": 8, "denied": 9, "simulation_missing": 2}.get(self.error_code or "", 1)


_WAITING_EXIT: dict[str, int] = {WaitReason.IN_DOUBT: 7, WaitReason.TIMER: 10, WaitReason.STORAGE: 4}
