"""What works next for a run: the one place that decides which line a person is offered, in every view (R119, R120).

A line is offered only where it does something: a resume that could only end as the last one did says what must come
first, and where no resume can help, a fork is offered or nothing.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import StrEnum

from perdure.model.run import LATER, RunStatus, WaitReason, WayOn

SIMULATION_MISSING = "simulation_missing"


class Program(StrEnum):
    """How another process gets at the program of a run: its file, a script around a ``run_scope``, or not at all."""

    FILE = "file"
    SCOPE = "scope"
    FUNCTION = "function"


class Refusal(StrEnum):
    """Who refused the call that ended a run, where resume does not simply try it again."""

    PERSON = "person"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a run.

    Args:
        flags: what every printed command needs to reach its ledger.
        granting: the command that grants what its budget lacks, where it waits for that.
        refusal: who refused the call that ended it, or one inside that call.
        given_up: the call behind its end of which a person said that its outcome will not be known; or empty.
        is_pruned: its bodies were removed.
        stops_on_change: its job says ``on_change: stop``.
    """

    run_id: str
    flags: str
    status: RunStatus
    reason: str | None
    error_code: str | None
    program: Program
    granting: str = ""
    refusal: Refusal | None = None
    given_up: str = ""
    is_pruned: bool = False
    stops_on_change: bool = False


STOPS_ON_CHANGE = "on_change: stop: if anything has changed, this says what, and --accept-change goes on all the same"
_RULE = "once the rule that refused the call has changed; until then it is refused again"
_SIMULATE = "once the tool that it names has a stand-in, @TOOL.simulate"
DENIED_BY_PERSON = "what a person has denied stays denied in every life of this run"
ASKS_ANEW = "a fork, which really sends, asks anew"


def way_on(run: Standing) -> WayOn:
    """Return what lets a run go on; empty where it has succeeded, was cancelled, or has lost its bodies."""
    if run.status in (RunStatus.SUCCEEDED, RunStatus.CANCELLED):
        return WayOn()
    if run.status is not RunStatus.FAILED:
        if run.reason == WaitReason.BUDGET and run.granting:
            return WayOn(resume=run.granting)
        return _resume(run)
    if run.is_pruned:
        return WayOn()
    if run.refusal is Refusal.PERSON:
        return _fork(run, DENIED_BY_PERSON)
    if run.given_up:
        return _fork(run, f"{run.given_up} was given up, which its program gets as CallAbandoned in every life of it")
    if run.error_code == "deadline":
        return _resume(run, grant=LATER)
    if run.refusal is Refusal.RULE:
        return _resume(run, after=_RULE)
    if run.error_code == SIMULATION_MISSING:
        return _resume(run, after=_SIMULATE)
    return _resume(run)


def plain_resume(run: Standing) -> str:
    """Return the line that goes on with a run which nothing keeps from it."""
    return _resume(run).resume


def _resume(run: Standing, *, after: str = "", grant: str = "") -> WayOn:
    said, said_of_id = after, repr(run.run_id)
    if run.program is Program.FILE:
        line = f"perdure resume {shlex.quote(run.run_id)}" + (f" --grant {grant}" if grant else "")
        line += f" {run.flags}" if run.flags else ""
        said = said or (STOPS_ON_CHANGE if run.stops_on_change else "")
    elif run.program is Program.SCOPE:
        line = f"start the script again that has run_scope({said_of_id})"
    elif grant:
        name, _, amount = grant.partition("=")
        line = f"engine.resume({said_of_id}, main=..., grant={{{name!r}: {amount!r}}})"
    elif run.reason == WaitReason.CRASH_LOOP:
        line = f"engine.resume({said_of_id}, main=...)"
        said = "the same id again counts as one more crash"
    elif run.status is RunStatus.FAILED:
        line = f"engine.resume({said_of_id}, main=...)"
        said = said or "the same id again returns what is stored of a failed run"
    else:
        line = f"start your program again with run_id={said_of_id}"
        said = "its main cannot be loaded from outside"
    return WayOn(resume=f"{line}   # {said}" if said else line, after=after)


def _fork(run: Standing, why: str) -> WayOn:
    if run.program is Program.FILE:
        line = f"perdure fork {shlex.quote(run.run_id)} --effects live" + (f" {run.flags}" if run.flags else "")
    elif run.program is Program.FUNCTION:
        line = f"engine.fork({run.run_id!r}, effects='live', main=...)"
    else:
        return WayOn(why=f"{why}; for another answer start the script with another id")
    return WayOn(fork=line, why=f"{why}; {ASKS_ANEW}")


_COMMAND = re.compile(r"\bperdure (?=[a-z])")


def with_flags(command: str, flags: str) -> str:
    """Return a line in which every ``perdure`` command reaches the same ledger."""
    if not flags or flags in command or command.endswith("--help"):  # help needs no ledger
        return command
    return _COMMAND.sub(lambda _: f"perdure {flags} ", command)
