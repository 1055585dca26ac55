"""What people grant: more of a budget, or a later deadline. The specification stays as it is (semantics #39)."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime

from perdure.core.budget import DEADLINE, KEYS, BadGrant, Limit, allowance, checked_amount
from perdure.core.duration import parse_duration
from perdure.core.transitions import CallEvent
from perdure.model.errors import NotFound, PerdureError, UsageError, VerdictRefused
from perdure.model.run import RunRow, RunStatus
from perdure.model.toolcall import DENIED, CallStatus
from perdure.ports.clock import after, format_time, parse_time
from perdure.runtime import limits
from perdure.runtime.accept import spec_of
from perdure.runtime.freeing import let_the_run_go_on
from perdure.runtime.overdue import EXPIRED
from perdure.store.sql_store import SqlStore

NAMES = (*(str(limit) for limit in Limit), DEADLINE)


def record(store: SqlStore, run_id: str, given: Mapping[str, object], *, actor: str, now: str) -> None:
    """Record what a person grants, and close the question about a limit that is reached no more.

    Args:
        given: limit to amount, and ``deadline`` to a moment (ISO-8601 with a zone) or ``+2h`` from now.

    Raises:
        NotFound: there is no such run.
        UsageError: something cannot be granted; nothing is recorded then.
        VerdictRefused: the run has ended for good.
    """
    run = store.runs.get(run_id)
    if run is None:
        raise NotFound(f"there is no run {run_id!r}")
    if run.status in (RunStatus.SUCCEEDED, RunStatus.CANCELLED):
        raise VerdictRefused(f"run {run_id} has ended ({run.status}), and needs nothing any more")
    amounts = _checked(run, given, now)
    question = next((item for item in store.questions.open(run_id) if item.kind == limits.BUDGET_KIND), None)
    asked = question.approval_id if question is not None else None
    for kind, amount in amounts.items():
        store.budgets.grant(run_id, run.lease_fence, actor=actor, kind=kind, amount=amount, approval_id=asked, now=now)
    if DEADLINE in amounts:
        store.budgets.extend(run_id, run.lease_fence, deadline_at=amounts[DEADLINE], now=now)
        _withdraw_expired(store, run, now)
    if question is not None and not _still_hit(store, run, limits.stopped_by(question)[1]):
        answer = ",".join(f"{kind}={amount}" for kind, amount in amounts.items())
        store.questions.answer(question.approval_id, run.authority, answer=answer, actor=actor, now=now)
    let_the_run_go_on(store, run_id, now)


@contextmanager
def said_as_recorded(grant: Mapping[str, object] | None) -> Generator[None]:
    """Let a refusal to go on say that what was granted stands in the ledger all the same."""
    try:
        yield
    except PerdureError as problem:
        if grant is not None:
            problem.safe = f"What was granted is recorded; do not grant it again. {problem.safe}"
        raise


def _still_hit(store: SqlStore, run: RunRow, wanted: Limit | None) -> bool:
    allowed = allowance(spec_of(run).get("budgets") or {}).plus(store.budgets.granted(run.run_id))
    return allowed.hit(limits.usage_of(store, run.run_id), wanted) is not None


def _checked(run: RunRow, given: Mapping[str, object], now: str) -> dict[str, str]:
    budgets: Mapping[str, object] = spec_of(run).get("budgets") or {}
    amounts, problems = dict[str, str](), list[str]()
    for name, amount in given.items():
        try:
            amounts[name] = _deadline(run, amount, now) if name == DEADLINE else _amount(budgets, name, amount)
        except BadGrant as problem:
            problems.append(str(problem))
    if not given:
        problems.append("nothing is granted")
    if problems:
        may = [str(limit) for limit in Limit if _grantable(budgets, limit)]
        may += [DEADLINE] if run.deadline_at is not None else []
        meant = [near[0] for name in given if (near := difflib.get_close_matches(name, may, n=1))]
        granted = " ".join(f"--grant {name}=…" for name in meant)
        raise UsageError(
            "; ".join(problems),
            safe="Nothing was recorded.",
            next_command=f"perdure resume {shlex.quote(run.run_id)} {granted}".rstrip(),
        )
    return amounts


def _grantable(budgets: Mapping[str, object], limit: Limit) -> bool:
    return limit is Limit.RETRIES or budgets.get(KEYS[limit]) is not None


def _amount(budgets: Mapping[str, object], name: str, amount: object) -> str:
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if near and near[0] != DEADLINE and not _grantable(budgets, Limit(near[0])):
            hint += f" The job has no {KEYS[Limit(near[0])]}, so there is nothing to add it to"
        raise BadGrant(f"{name!r} is nothing that can be granted{hint} ({', '.join(NAMES)})")
    limit = Limit(name)
    if not _grantable(budgets, limit):
        raise BadGrant(f"the job has no {KEYS[limit]}, so there is nothing to add {name} to")
    return str(checked_amount(limit, amount))


def _deadline(run: RunRow, given: object, now: str) -> str:
    if run.deadline_at is None:
        raise BadGrant("the job has no deadline, so there is none to extend")
    text = str(given).strip()
    try:
        if text.startswith("+"):
            moment = after(now, parse_duration(text[1:]))
        else:
            parsed = datetime.fromisoformat(text)
            if parsed.tzinfo is None:
                raise ValueError(text)
            moment = format_time(parsed)
    except (ValueError, OverflowError):
        raise BadGrant(f"deadline={text} is neither +2h nor a moment with a zone") from None
    if parse_time(moment) <= max(parse_time(now), parse_time(run.deadline_at)):
        raise BadGrant(f"deadline={text} is not later than now and the deadline {run.deadline_at}")
    return moment


def _withdraw_expired(store: SqlStore, run: RunRow, now: str) -> None:
    """Let the program ask again for the calls whose approval expired with the old deadline."""
    for call_no in store.calls.expired(run.run_id, EXPIRED):
        row = store.calls.get(call_no)
        if row.status is CallStatus.FAILED and row.error_code == DENIED:
            store.calls.move(row, CallEvent.REOPEN, run.authority, now)
            store.calls.move(store.calls.get(call_no), CallEvent.WITHDRAWN, run.authority, now)
    store.seals.seal(run.run_id, now)
