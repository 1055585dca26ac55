"""What would become of a call if its owner died now: the answer of ``decide``, asked in advance."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.core.decide import CallFacts, Next, decide
from perdure.model.toolcall import CallRow, CallStatus

PROBED, SENT_AGAIN, RUN_AGAIN = "probed", "sent_again", "run_again"
ASKED, STILL_WAITS, WHEN_ASKED, NOTHING = "person_asked", "still_waits", "sent_when_asked_for", "nothing"
_WORDS = {
    Next.DELIVER: NOTHING,
    Next.AWAIT_PERSON: STILL_WAITS,
    Next.START: WHEN_ASKED,
    Next.RERUN: RUN_AGAIN,
    Next.AWAIT_SENDER: ASKED,
    Next.AWAIT_TWIN: PROBED,
    Next.PROBE: PROBED,
    Next.SEND_AGAIN: SENT_AGAIN,
    Next.NOT_DONE: WHEN_ASKED,
    Next.ASK: ASKED,
}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the next life would do with a call first.

    Args:
        then: ``probed sent_again run_again person_asked still_waits sent_when_asked_for nothing``.
        why: the reason that ``decide`` gives.
        wait_seconds: how long it would wait before.
    """

    then: str
    why: str
    wait_seconds: float = 0.0


def forecast(row: CallRow, facts: CallFacts) -> Forecast:
    """Return what the next life would do with a row, by the very rules by which it will decide.

    Args:
        row: as it stands now.
        facts: what that life would know: the owner is dead.
    """
    step = decide(row, replace(facts, started_here=False))
    if step.kind is Next.MARK_LOST:
        row = replace(row, status=CallStatus.IN_DOUBT)
        step = decide(row, facts)
    waited = 0.0
    if step.kind is Next.WAIT_UNTIL:
        waited = step.wait_seconds
        step = decide(row, replace(facts, wait_seconds=0.0))
    return Forecast(_WORDS[step.kind], step.why, waited)
