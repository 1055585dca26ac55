"""Rows of what runs have used, what people have granted, and which stop conditions were met."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from perdure.core.budget import Usage
from perdure.store.statements import Statements


@dataclass(frozen=True, slots=True)
class Account:
    """What the account of a run stands at.

    Args:
        last_error, last_error_tool: which error came last, ``usage.errors`` times in a row, and of which tool.
        active_seconds: what was charged of the lives of all runs on the account.
        shared: other runs charge it too.
    """

    usage: Usage
    last_error: str | None
    last_error_tool: str | None
    active_seconds: float
    shared: bool


@dataclass(frozen=True, slots=True)
class Grant:
    """One row of ``run_grants``; ``amount`` is a number, or the new moment of a deadline."""

    at: str
    actor: str
    kind: str
    amount: str
    approval_id: str | None


@dataclass(frozen=True, slots=True)
class MetCondition:
    """One row of ``run_conditions``; ``evidence`` is JSON."""

    condition: str
    at: str
    evidence: str | None


class BudgetRows:
    """The ``run_budgets``, ``run_grants`` and ``run_conditions`` tables."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements

    def open(self, run_id: str, *, charged_to: str | None = None) -> None:
        """Open the account of a run, from what it has used already; a run that has one keeps it.

        Args:
            charged_to: the run whose account is charged instead, for runs that share one.
        """
        self._do.write("open_budget", run_id=run_id, charged_to=charged_to)

    def get(self, run_id: str) -> Account | None:
        """Return what the account of a run stands at, or ``None`` where it has none."""
        row = self._do.one("get_budget", run_id=run_id)
        if row is None:
            return None
        calls, steps, tokens, usd_micros, errors, error, tool, seconds, shared = row
        return Account(Usage(calls, steps, tokens, usd_micros, errors), error, tool, float(seconds), bool(shared))

    def charge(self, run_id: str, fence: int, *, tokens: int, usd_micros: int) -> int:
        """Add what an agent reports; return how many accounts were charged."""
        return self._do.write("charge_usage", run_id=run_id, fence=fence, tokens=tokens, usd_micros=usd_micros)

    def note_error(self, run_id: str, fence: int, *, error: str | None, tool_name: str | None, count: int) -> None:
        """Remember which error came last and how often in a row."""
        self._do.write_one("note_error", run_id=run_id, fence=fence, error=error, tool_name=tool_name, count=count)

    def charge_time(self, run_id: str, fence: int, *, active_seconds: float, now: str) -> None:
        """Charge the last stretch of a life."""
        self._do.write("charge_time", run_id=run_id, fence=fence, active_seconds=active_seconds, now=now)

    def grant(
        self, run_id: str, fence: int, *, actor: str, kind: str, amount: str, approval_id: str | None, now: str
    ) -> None:
        """Record that a person grants more."""
        self._do.write_one(
            "add_grant",
            run_id=run_id,
            fence=fence,
            actor=actor,
            kind=kind,
            amount=amount,
            approval_id=approval_id,
            now=now,
        )

    def grants(self, run_id: str) -> list[Grant]:
        """Return what was granted, oldest first."""
        return [Grant(*row) for row in self._do.rows("list_grants", run_id=run_id)]

    def granted(self, run_id: str) -> dict[str, Decimal]:
        """Return the sum of what was granted, by kind; a deadline is no sum and is left out."""
        sums: dict[str, Decimal] = {}
        for item in self.grants(run_id):
            if item.kind != "deadline":
                sums[item.kind] = sums.get(item.kind, Decimal(0)) + Decimal(item.amount)
        return sums

    def extend(self, run_id: str, fence: int, *, deadline_at: str, now: str) -> None:
        """Set a later deadline; the specification stays as it is."""
        self._do.write_one("extend_deadline", run_id=run_id, fence=fence, deadline_at=deadline_at, now=now)

    def meet(self, run_id: str, fence: int, *, condition: str, evidence: str | None, now: str) -> None:
        """Record that a stop condition holds, and why."""
        self._do.write_one(
            "meet_condition", run_id=run_id, fence=fence, condition=condition, evidence=evidence, now=now
        )

    def met(self, run_id: str) -> list[MetCondition]:
        """Return the stop conditions that were met, by name."""
        return [MetCondition(*row) for row in self._do.rows("list_conditions", run_id=run_id)]
