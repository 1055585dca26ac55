"""How a row is waited for that is not due yet."""

from __future__ import annotations

from perdure.core.decide import Step
from perdure.model.run import WaitReason
from perdure.model.toolcall import TIMER_NAMESPACE, CallRow
from perdure.runtime.actions import Park, Pause

LONG_SLEEP_SECONDS = 60.0


def wait_of(row: CallRow, step: Step) -> Pause | Park:
    """Return how a row is waited for: a long timer parks, so that the process need not stay."""
    if row.tool_namespace == TIMER_NAMESPACE and step.wait_seconds >= LONG_SLEEP_SECONDS:
        return Park(WaitReason.TIMER, step.wait_seconds)
    return Pause(step.wait_seconds)
