"""What the gateway's loop asks a driver to do. The loop itself does no I/O; a sync and an async driver perform it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from perdure.model.toolcall import CallRow
from perdure.ports.tool import CallContext, Probe
from perdure.runtime.ledger import Work
from perdure.runtime.registry import AnyTool


@dataclass(frozen=True, slots=True)
class Commit:
    """Run ``work`` in the ledger and give back its value once it is durable."""

    work: Work[Any]


@dataclass(frozen=True, slots=True)
class Post:
    """Hand ``work`` to the ledger without waiting; the next commit carries it, in order, or ``failed`` is told."""

    work: Work[Any]
    failed: Callable[[BaseException], None]


@dataclass(frozen=True, slots=True)
class Invoke:
    """Call the tool; give back an ``Outcome``."""

    dispatch: Dispatch


@dataclass(frozen=True, slots=True)
class Consult:
    """Ask the probe; give back a ``Probe`` (an exception is ``unknown``)."""

    probe: Callable[[CallContext], Any]
    context: CallContext


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait ``seconds``; the operation is not parked, it goes on by itself."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Park:
    """Wait until something else moves the row; give back when it is worth looking again.

    Args:
        seconds: after which it is, in a life that has not ended by then.
    """

    reason: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class AwaitSender:
    """Wait for a sender of this process that outlived its timeout; give back its ``Outcome``, or ``None``."""

    sender: Sender
    seconds: float


Action = Commit | Post | Invoke | Consult | Pause | Park | AwaitSender
Loop = Generator[Action, Any, Any]


class Withdrawn(BaseException):
    """The caller of a call that was not started was cancelled, and the row is free again."""


class Ended(Enum):
    """How one attempt ended."""

    VALUE = "value"
    NOT_DONE = "not_done"
    RAISED = "raised"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt gave back; ``fatal`` is to be raised again after it was recorded."""

    ended: Ended
    value: Any = None
    error: BaseException | None = None
    retry: bool = True
    sender: Sender | None = None
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One attempt, ready to go."""

    tool: AnyTool
    row: CallRow
    args: list[Any]
    kwargs: Mapping[str, Any]
    context: CallContext
    timeout_seconds: float | None
    body: Callable[..., Any]
    is_async: bool


@dataclass(eq=False, slots=True)
class Sender:
    """A thread that may still be sending after its caller stopped waiting (semantics #25)."""

    key: str
    run_id: str
    finished: threading.Event = field(default_factory=threading.Event)
    outcome: Outcome | None = None
    on_finished: list[Callable[[], None]] = field(default_factory=list)

    def finish(self, outcome: Outcome) -> None:
        """Keep the late outcome and wake whoever waits for it."""
        self.outcome = outcome
        self.finished.set()
        LIVING_SENDERS.pop(self.key, None)
        for wake in tuple(self.on_finished):
            wake()


LIVING_SENDERS: dict[str, Sender] = {}
"""Senders of this process by idempotency key, which no two ledgers share: a later life here must know of them."""

__all__ = [
    "LIVING_SENDERS",
    "Action",
    "AwaitSender",
    "Commit",
    "Consult",
    "Dispatch",
    "Ended",
    "Invoke",
    "Loop",
    "Outcome",
    "Park",
    "Pause",
    "Post",
    "Probe",
    "Sender",
    "Withdrawn",
]
