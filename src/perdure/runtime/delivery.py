"""What a caller is told of a call that did not succeed."""

from __future__ import annotations

from collections.abc import Callable

from perdure.core.identity import Gate
from perdure.model.errors import CallAbandoned, CallChallenged, CallDenied, CallError, CallFailed
from perdure.model.toolcall import CHALLENGED, DENIED, CallRow, CallStatus, Repeat
from perdure.runtime.request import CallRequest


def is_told(request: CallRequest, gate: Gate, against: tuple[CallRow, ...]) -> bool:
    """Return whether a challenge is the call's result: a model reads it, unless a person must be asked.

    A rule may want that, and so does an effect of a run this one was forked from that is in doubt there: a model could
    only guess.
    """
    asks_person = gate is Gate.CHALLENGE_SEEN and request.decision.repeat is Repeat.ASK
    unknown = any(row.status in (CallStatus.RUNNING, CallStatus.IN_DOUBT) for row in against)
    return request.reader is not None and not asks_person and not unknown


def delivered_error(row: CallRow) -> CallError:
    """Return the error that a call which is settled, but did not succeed, raises in every life."""
    detail = row.error_detail or str(row.status)
    kind: Callable[..., CallError] = CallFailed
    if row.status is CallStatus.ABANDONED:
        kind, detail = CallAbandoned, "a person decided to go on without knowing whether it happened"
    elif row.error_code == DENIED:
        kind = CallDenied
    elif row.error_code == CHALLENGED:
        kind = CallChallenged
    elif row.status is CallStatus.CANCELLED:
        kind, detail = CallDenied, "it was withdrawn"
    return kind(
        f"{row.tool_name}: {detail}",
        tool_call_id=row.tool_call_id,
        tool_name=row.tool_name,
        error_type=row.error_code,
    )
