"""A tool call: the words of its life and the row that holds it (design.md §2, semantics.md §2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class SideEffectClass(StrEnum):
    """What a call may touch (R024, R045)."""

    EXTERNAL = "external"
    MEMORY = "memory"
    LOCAL = "local"
    READ_ONLY = "read_only"

    @property
    def effectful(self) -> bool:
        """Whether a lost outcome leaves a doubt that evidence must settle."""
        return self in (SideEffectClass.EXTERNAL, SideEffectClass.MEMORY)


class ReplayPolicy(StrEnum):
    """What may be done when an outcome was lost (R086)."""

    REPLAY_EXACT = "REPLAY_EXACT"
    REPLAY_IDEMPOTENT = "REPLAY_IDEMPOTENT"
    RELAUNCH = "RELAUNCH"
    RECONCILE = "RECONCILE"
    ASK = "ASK"


class Repeat(StrEnum):
    """What a second call of the same kind in one context means."""

    ALLOW = "allow"
    CHALLENGE = "challenge"
    ASK = "ask"


class CallStatus(StrEnum):
    """The eight states of a call."""

    PREPARED = "prepared"
    AWAITING_APPROVAL = "awaiting_approval"
    RUNNING = "running"
    IN_DOUBT = "in_doubt"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"

    @property
    def settled(self) -> bool:
        """Whether the row will not move again by itself."""
        return self in _SETTLED


_SETTLED = frozenset({CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.CANCELLED, CallStatus.ABANDONED})

DENIED = "denied"
CHALLENGED = "challenged"

MEMO_NAMESPACE = "memo"
MODEL_NAMESPACE = "model"
LOCAL_NAMESPACE = "local"
TIMER_NAMESPACE = "timer"
ASK_NAMESPACE = "ask"
CRITIC_NAMESPACE = "critic"
INNER_NAMESPACES = frozenset(
    {MEMO_NAMESPACE, MODEL_NAMESPACE, "agent", TIMER_NAMESPACE, ASK_NAMESPACE, CRITIC_NAMESPACE}
)


@dataclass(frozen=True, slots=True)
class CallRow:
    """One row of ``tool_calls`` as the rules see it; payloads are read only when they are needed.

    ``simulated`` is 1 where a fork got a result without the tool being entered; ``inherited_from`` is the call of an
    earlier run that a fork's row is the copy of: it happened there.
    """

    call_no: int
    tool_call_id: str
    run_id: str
    step_id: str
    tool_namespace: str
    tool_name: str
    side_effect_class: SideEffectClass
    replay_policy: ReplayPolicy
    status: CallStatus
    attempt: int
    occurrence: int
    args_hash: str
    effect_scope: str | None
    idempotency_key: str
    fence: int
    branch: str
    parent_call_id: str | None = None
    dedupe_key: str | None = None
    same_as: str | None = None
    repeat_of: str | None = None
    not_before: str | None = None
    key_expires_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    external_correlation_id: str | None = None
    handle: str | None = None
    prepared_at: str | None = None
    valid_until: str | None = None
    edited_args_hash: str | None = None
    edited_scope: str | None = None
    simulated: int = 0
    inherited_from: str | None = None

    def succeeded(self, now: str) -> CallRow:
        """Return the row as it is once its receipt is stored; ``dataclasses.replace`` costs ten times as much."""
        row = object.__new__(CallRow)
        for name in CallRow.__slots__:
            object.__setattr__(row, name, getattr(self, name))
        object.__setattr__(row, "status", CallStatus.SUCCEEDED)
        object.__setattr__(row, "finished_at", now)
        return row

    @property
    def void(self) -> bool:
        """Whether the row stands for nothing that happened or may happen (semantics R0)."""
        if self.status is CallStatus.CANCELLED:
            return self.same_as is None
        return self.status is CallStatus.FAILED and self.error_code == CHALLENGED

    @property
    def effectful(self) -> bool:
        """Whether it can do something outside: its class is external or memory, and it is no simulation."""
        return self.side_effect_class.effectful and not self.simulated


class UnmetRow(NamedTuple):
    """What the index of unmet rows keeps of a row; the names are those of ``CallRow``.

    ``under_finished`` says that the call it was made inside succeeded or failed.
    """

    call_no: int
    tool_call_id: str
    tool_namespace: str
    tool_name: str
    args_hash: str
    branch: str
    parent_call_id: str | None
    same_as: str | None
    void: bool
    under_finished: bool = False


class CallKey(NamedTuple):
    """What makes two calls equal: namespace, tool and canonical arguments (R1)."""

    namespace: str
    tool_name: str
    args_hash: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """One append-only fact about a call, with its author (kinds: attempt, probe, reply, verdict, ref)."""

    kind: str
    at: str
    actor: str
    attempt: int
    says: str
    detail: str | None = None
    ref: str | None = None
