"""The one table of each state machine (semantics.md §2). Nothing else in the program decides what may follow what.

Three rules: a settled call never moves, except that a failure which ended its run is reopened by an explicit resume;
``running`` is left to ``prepared`` only where it is certain that nothing happened or that the class has no effect;
success evidence is accepted in doubt at any time, and still of a call that was taken for not done and not sent again.
"""

from __future__ import annotations

from enum import StrEnum

from perdure.model.errors import PerdureError
from perdure.model.run import RunStatus
from perdure.model.toolcall import CallStatus

P, A, R, D = CallStatus.PREPARED, CallStatus.AWAITING_APPROVAL, CallStatus.RUNNING, CallStatus.IN_DOUBT
S, F, C, X = CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.CANCELLED, CallStatus.ABANDONED


class CallEvent(StrEnum):
    """What can happen to a call."""

    DISPATCH = "dispatch"
    ASK_APPROVAL = "ask_approval"
    APPROVED = "approved"
    REFUSED = "refused"
    SAME_AS = "same_as"
    WITHDRAWN = "withdrawn"
    DONE = "done"
    NOT_DONE = "not_done"
    FAILED = "failed"
    LOST = "lost"
    RERUN = "rerun"
    SEND_AGAIN = "send_again"
    GIVE_UP = "give_up"
    REOPEN = "reopen"


CALL_TRANSITIONS: dict[tuple[CallStatus, CallEvent], CallStatus] = {
    (P, CallEvent.DISPATCH): R,
    (P, CallEvent.ASK_APPROVAL): A,
    (P, CallEvent.REFUSED): F,
    (P, CallEvent.WITHDRAWN): C,
    (P, CallEvent.SAME_AS): C,
    (P, CallEvent.DONE): S,
    (A, CallEvent.APPROVED): P,
    (A, CallEvent.REFUSED): F,
    (A, CallEvent.SAME_AS): C,
    (A, CallEvent.WITHDRAWN): C,
    (R, CallEvent.DONE): S,
    (R, CallEvent.NOT_DONE): P,
    (R, CallEvent.FAILED): F,
    (R, CallEvent.LOST): D,
    (R, CallEvent.RERUN): P,
    (D, CallEvent.DONE): S,
    (D, CallEvent.SEND_AGAIN): R,
    (D, CallEvent.NOT_DONE): P,
    (D, CallEvent.FAILED): F,
    (D, CallEvent.GIVE_UP): X,
    (F, CallEvent.REOPEN): P,
}


class RunEvent(StrEnum):
    """What can happen to a run."""

    CLAIM = "claim"
    ANSWERED = "answered"
    PARK = "park"
    RETURN = "return"
    RAISE = "raise"
    CANCEL = "cancel"
    RESUME = "resume"


_QUEUED, _RUNNING, _WAITING = RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING

RUN_TRANSITIONS: dict[tuple[RunStatus, RunEvent], RunStatus] = {
    (_QUEUED, RunEvent.CLAIM): _RUNNING,
    (_RUNNING, RunEvent.CLAIM): _RUNNING,
    (_RUNNING, RunEvent.PARK): _WAITING,
    (_RUNNING, RunEvent.RETURN): RunStatus.SUCCEEDED,
    (_RUNNING, RunEvent.RAISE): RunStatus.FAILED,
    (_WAITING, RunEvent.RAISE): RunStatus.FAILED,
    (_WAITING, RunEvent.ANSWERED): _QUEUED,
    (_WAITING, RunEvent.RESUME): _QUEUED,
    (RunStatus.FAILED, RunEvent.RESUME): _QUEUED,
    (_QUEUED, RunEvent.CANCEL): RunStatus.CANCELLED,
    (_RUNNING, RunEvent.CANCEL): RunStatus.CANCELLED,
    (_WAITING, RunEvent.CANCEL): RunStatus.CANCELLED,
}


class IllegalTransition(PerdureError):
    """A state machine was asked for a move that its table does not have."""

    code = "PERDURE-190"
    default_next = "report it: this is a fault of Perdure, not of your program"


def next_call_status(status: CallStatus, event: CallEvent) -> CallStatus:
    """Return the state after ``event``; raises ``IllegalTransition``."""
    try:
        return CALL_TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransition(f"a call that is {status} cannot meet the event {event}") from None


def next_run_status(status: RunStatus, event: RunEvent) -> RunStatus:
    """Return the state after ``event``; raises ``IllegalTransition``."""
    try:
        return RUN_TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransition(f"a run that is {status} cannot meet the event {event}") from None
