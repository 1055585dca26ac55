"""What a run may use and what it has used: which limit is hit first, and what a person grants (R036 to R040, C8, C19).

Amounts are whole numbers of the smallest unit, so that many small charges add up exactly: milliseconds, millionths of a
dollar, and counts. A limit that a job does not name is off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from enum import StrEnum
from typing import Any


class Limit(StrEnum):
    """What a budget limits; the word is the one of ``--grant``."""

    ERRORS = "errors"
    MINUTES = "minutes"
    TOKENS = "tokens"
    USD = "usd"
    STEPS = "steps"
    CALLS = "calls"
    RETRIES = "retries"


DEADLINE = "deadline"
"""What may be granted beside the limits: a later absolute end."""

KEYS: Mapping[Limit, str] = {
    Limit.ERRORS: "max_same_error_repeats",
    Limit.MINUTES: "max_wallclock_minutes",
    Limit.TOKENS: "max_tokens",
    Limit.USD: "max_usd",
    Limit.STEPS: "max_steps",
    Limit.CALLS: "max_tool_calls",
    Limit.RETRIES: "max_retries_per_tool_call",
}
_UNITS: Mapping[Limit, int] = {Limit.MINUTES: 60_000, Limit.USD: 1_000_000}
_STANDING = (Limit.ERRORS, Limit.MINUTES, Limit.TOKENS, Limit.USD)
_NOUNS: Mapping[Limit, str] = {
    Limit.ERRORS: "equal errors in a row",
    Limit.MINUTES: "active minutes",
    Limit.TOKENS: "tokens",
    Limit.USD: "US dollars",
    Limit.STEPS: "steps",
    Limit.CALLS: "tool calls",
    Limit.RETRIES: "requests of one call",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run, or all runs that share its account, have used; ``active_ms`` is time in which a life was at work."""

    calls: int = 0
    steps: int = 0
    tokens: int = 0
    usd_micros: int = 0
    errors: int = 0
    active_ms: int = 0

    def of(self, limit: Limit) -> int:
        """Return what is used of one limit, in its smallest unit."""
        used = {
            Limit.ERRORS: self.errors,
            Limit.MINUTES: self.active_ms,
            Limit.TOKENS: self.tokens,
            Limit.USD: self.usd_micros,
            Limit.STEPS: self.steps,
            Limit.CALLS: self.calls,
        }
        return used.get(limit, 0)


@dataclass(frozen=True, slots=True)
class Hit:
    """A limit that is reached: nothing new starts until a person grants more."""

    limit: Limit
    used: int
    allowed: int

    @property
    def said(self) -> str:
        """What was used and what is allowed, for a person."""
        noun, key = _NOUNS[self.limit], KEYS[self.limit]
        return f"{shown(self.limit, self.used)} of {shown(self.limit, self.allowed)} {noun} are used ({key})"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a run may use in all: its job's budgets and everything that was granted since, in smallest units."""

    amounts: Mapping[Limit, int] = field(default_factory=dict[Limit, int])

    def __bool__(self) -> bool:
        return bool(self.amounts)

    def plus(self, grants: Mapping[str, float | Decimal]) -> Allowance:
        """Return what is allowed with grants added; a limit that is off stays off."""
        added = {Limit(name): in_units(Limit(name), amount) for name, amount in grants.items() if name in set(Limit)}
        return Allowance({limit: amount + added.get(limit, 0) for limit, amount in self.amounts.items()})

    def hit(self, usage: Usage, wants: Limit | None) -> Hit | None:
        """Return the limit that keeps something from starting, or ``None``.

        Args:
            usage: what is used by now.
            wants: what is to start: a tool call, a step, or ``None`` for a memo or a model's turn, which are neither.
        """
        for limit in _STANDING:
            allowed = self.amounts.get(limit)
            if allowed is not None and usage.of(limit) >= allowed:
                return Hit(limit, usage.of(limit), allowed)
        allowed = self.amounts.get(wants) if wants is not None else None
        if wants is not None and allowed is not None and usage.of(wants) + 1 > allowed:
            return Hit(wants, usage.of(wants), allowed)
        return None


def allowance(budgets: Mapping[str, Any]) -> Allowance:
    """Return what the budgets of a job allow; retries belong to each call, and are no account of the run."""
    given = {limit: budgets.get(key) for limit, key in KEYS.items() if limit is not Limit.RETRIES}
    return Allowance({limit: in_units(limit, amount) for limit, amount in given.items() if amount is not None})


def in_units(limit: Limit, amount: float | Decimal) -> int:
    """Return an amount as people write it (minutes, dollars, a count) in the smallest unit of its limit."""
    exact = Decimal(repr(amount)) if isinstance(amount, float) else Decimal(amount)
    return int((exact * _UNITS.get(limit, 1)).to_integral_value(ROUND_HALF_UP))


def shown(limit: Limit, units: int) -> str:
    """Return an amount in smallest units as people write it, with at most two decimals where it is no count."""
    unit = _UNITS.get(limit)
    return str(units) if unit is None else f"{units / unit:.2f}".rstrip("0").rstrip(".")


def as_given(limit: Limit, units: int) -> float | int:
    """Return an amount in smallest units as the number that a job file would have."""
    unit = _UNITS.get(limit)
    if unit is None:
        return units
    return units // unit if units % unit == 0 else units / unit


def left_of(budgets: Allowance, allowed: Allowance, usage: Usage) -> tuple[str, ...]:
    """Return a sentence for each limit that is on: what is used, what is allowed, and how much of it was granted.

    Args:
        budgets: what the job allows.
        allowed: the same with the grants added.
        usage: what is used by now.
    """
    found: list[str] = []
    for limit, amount in allowed.amounts.items():
        used, granted = usage.of(limit), amount - budgets.amounts.get(limit, amount)
        more = f", {shown(limit, granted)} of them granted" if granted else ""
        left = shown(limit, max(0, amount - used))
        found.append(f"{_NOUNS[limit]}: {shown(limit, used)} used of {shown(limit, amount)}{more}; {left} left")
    return tuple(found)


class BadGrant(ValueError):
    """A grant cannot be read; the text says why."""


def parse_grant(parts: Iterable[str]) -> dict[str, str]:
    """Return ``minutes=30,calls=50`` as a mapping; the amounts are checked by ``checked_grant``.

    Raises:
        BadGrant: it is not of that form, or names something twice.
    """
    found: dict[str, str] = {}
    for part in (piece.strip() for given in parts for piece in given.split(",")):
        name, equals, amount = part.partition("=")
        if not equals or not name.strip() or not amount.strip():
            raise BadGrant(f"{part!r} is no grant: write NAME=AMOUNT, such as minutes=30,calls=50")
        if name.strip() in found:
            raise BadGrant(f"{name.strip()} is granted twice")
        found[name.strip()] = amount.strip()
    if not found:
        raise BadGrant("nothing is granted: write NAME=AMOUNT, such as minutes=30,calls=50")
    return found


def checked_amount(limit: Limit, given: object) -> Decimal:
    """Return the amount of a grant.

    Raises:
        BadGrant: it is no number above 0, or no whole number where things are counted.
    """
    try:
        amount = Decimal(str(given))
    except InvalidOperation:
        amount = Decimal("nan")
    if isinstance(given, bool) or not amount.is_finite() or not 0 < amount < 10**12:
        raise BadGrant(f"{limit}={given} is no number above 0")
    if limit not in _UNITS and amount != amount.to_integral_value():
        raise BadGrant(f"{limit}={given} is no whole number")
    if in_units(limit, amount) == 0:
        raise BadGrant(f"{limit}={given} is too small to count")
    return amount


def suggested(hit: Hit) -> str:
    """Return a grant that lets a run go on, for the line that a person pastes: as much again as is allowed."""
    return f"{hit.limit}={math.ceil(as_given(hit.limit, hit.allowed)) or 1}"
