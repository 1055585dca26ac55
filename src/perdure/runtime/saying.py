"""What a program says of its run beside its calls: what it has used, and which stop condition holds."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from perdure.core.codec import encode_or_repr
from perdure.core.usage import Spent, checked
from perdure.model.errors import UsageError
from perdure.model.toolcall import CallStatus
from perdure.runtime import limits
from perdure.runtime.door import Door
from perdure.runtime.life import Life
from perdure.runtime.request import CallRequest
from perdure.store.sql_store import SqlStore


def usage_request(door: Door, tokens: int, usd: float | Decimal) -> CallRequest:
    """Return the request of a report of what was used: a memo, so that no life counts it twice.

    Raises:
        UsageError: the amounts are none.
    """
    try:
        spent = checked(tokens, usd)
    except ValueError as problem:
        raise UsageError(f"run.usage: {problem}", next_command="run.usage(tokens=1200, usd=0.03)") from None

    def told() -> dict[str, int]:
        return {"tokens": spent.tokens, "usd_micros": spent.usd_micros}

    request = door.memo_request("usage", told, (), {}, told())
    request.unlimited = True
    request.journal = lambda _: charging(door.life, spent)
    return request


def charging(life: Life, spent: Spent) -> Callable[[SqlStore], None]:
    """Return what adds a report to the account, in the transaction of the receipt that it stands in."""
    return lambda store: limits.charge_usage(life, store, spent.tokens, spent.usd_micros)


def satisfy(life: Life, condition: str, evidence: Any) -> None:
    """Record that a named stop condition of the job holds, and why (R041).

    Args:
        evidence: anything with a JSON form; the id of a call of this run must be that of one that succeeded.

    Raises:
        UsageError: the job has no such condition, or the call that is named did not succeed.
    """
    life.check_open()
    named = [item for item in life.spec.get("stop_conditions") or () if isinstance(item, str)]
    if condition not in named:
        near = difflib.get_close_matches(condition, named, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(
            f"the job has no stop condition {condition!r}{hint}",
            next_command=f"list it under stop_conditions, or satisfy one of: {', '.join(named) or 'none'}",
        )
    problem = _evidence_problem(life, evidence)
    if problem is not None:
        raise UsageError(f"stop condition {condition!r}: {problem}", next_command=f"perdure calls ls {life.run_id}")
    text, now = encode_or_repr(evidence)[0], life.now()
    life.ledger.post(
        lambda store: store.budgets.meet(life.run_id, life.fence, condition=condition, evidence=text, now=now),
        life.fail,
    )


def _evidence_problem(life: Life, evidence: Any) -> str | None:
    if not isinstance(evidence, str) or not evidence.startswith(f"{life.run_id}."):
        return None
    row = life.ledger.read(lambda store: store.calls.by_id(evidence))
    if row is not None and row.status is not CallStatus.SUCCEEDED:
        return f"{evidence} is {row.status}, and no evidence"
    return None
