"""The pure rules of budgets: whatever is started, given back and granted, no more is used than was allowed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.budget import (
    KEYS,
    BadGrant,
    Limit,
    Usage,
    allowance,
    as_given,
    checked_amount,
    in_units,
    parse_grant,
    shown,
    suggested,
)

COUNTED = (Limit.CALLS, Limit.STEPS)
STANDING = (Limit.ERRORS, Limit.MINUTES, Limit.TOKENS, Limit.USD)
AMOUNTS = st.one_of(st.integers(1, 500), st.decimals(Decimal("0.01"), 500, places=2).map(float))


def budgets_of(limits: dict[Limit, float | int]) -> dict[str, float | int]:
    """Return the section of a job that has these limits."""
    return {KEYS[limit]: amount for limit, amount in limits.items()}


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.lists(st.sampled_from(["call", "step", "give back", "grant a call", "memo"]), max_size=40),
)
def test_what_is_admitted_never_exceeds_what_is_allowed(calls: int, steps: int, events: list[str]) -> None:
    allowed, used, granted = allowance({"max_tool_calls": calls, "max_steps": steps}), Usage(), 0
    for event in events:
        if event == "call" and allowed.hit(used, Limit.CALLS) is None:
            used = replace(used, calls=used.calls + 1)
        elif event == "step" and allowed.hit(used, Limit.STEPS) is None:
            used = replace(used, steps=used.steps + 1)
        elif event == "give back" and used.calls:
            used = replace(used, calls=used.calls - 1)
        elif event == "grant a call":
            granted += 1
            allowed = allowed.plus({"calls": 1})
        elif event == "memo":
            assert allowed.hit(used, None) is None
        assert used.calls <= calls + granted
        assert used.steps <= steps


@given(st.dictionaries(st.sampled_from(STANDING), AMOUNTS), st.sampled_from([None, *COUNTED]), st.data())
def test_a_standing_limit_that_is_used_up_lets_nothing_start(
    limits: dict[Limit, float | int], wants: Limit | None, data: st.DataObject
) -> None:
    allowed = allowance(budgets_of(limits))
    usage = Usage(
        tokens=data.draw(st.integers(0, 10**6)),
        usd_micros=data.draw(st.integers(0, 10**9)),
        errors=data.draw(st.integers(0, 600)),
        active_ms=data.draw(st.integers(0, 10**8)),
    )
    used_up = {limit for limit, amount in limits.items() if usage.of(limit) >= in_units(limit, amount)}
    hit = allowed.hit(usage, wants)
    assert (hit is not None) == bool(used_up)
    assert hit is None or hit.limit in used_up


@given(st.dictionaries(st.sampled_from([*STANDING, *COUNTED]), AMOUNTS, min_size=1), st.data())
def test_more_that_is_granted_never_holds_more_back(limits: dict[Limit, float | int], data: st.DataObject) -> None:
    allowed = allowance(budgets_of(limits))
    limit = data.draw(st.sampled_from(sorted(limits)))
    usage = Usage(*(data.draw(st.integers(0, 10**5)) for _ in range(6)))
    more = allowed.plus({str(limit): data.draw(AMOUNTS)})
    wants = limit if limit in COUNTED else None
    if allowed.hit(usage, wants) is None:
        assert more.hit(usage, wants) is None


@given(st.sampled_from([*STANDING, *COUNTED]), st.integers(1, 10**6))
def test_the_suggested_grant_can_be_given_and_lets_the_run_go_on(limit: Limit, amount: int) -> None:
    allowed = allowance({KEYS[limit]: amount})
    units = in_units(limit, amount)
    usage = Usage(units, units, units, units, units, units)
    wants = limit if limit in COUNTED else None
    hit = allowed.hit(usage, wants)
    assert hit is not None
    granted = parse_grant([suggested(hit)])
    more = {name: checked_amount(Limit(name), text) for name, text in granted.items()}
    assert allowed.plus(more).hit(usage, wants) is None


@given(st.lists(st.decimals(Decimal("0.000001"), 10, places=6), max_size=200))
def test_small_amounts_of_money_add_up_exactly(parts: list[Decimal]) -> None:
    assert sum(in_units(Limit.USD, part) for part in parts) == sum(parts, Decimal(0)) * 10**6


@given(st.sampled_from(list(Limit)), st.integers(0, 10**9))
def test_an_amount_that_is_shown_is_a_number(limit: Limit, units: int) -> None:
    assert abs(float(shown(limit, units)) - as_given(limit, units)) <= 0.005


@pytest.mark.parametrize("text", ["calls", "calls=", "=3", "", "calls=1,,steps=2", "calls=1,calls=2"])
def test_what_is_no_grant_is_refused(text: str) -> None:
    with pytest.raises(BadGrant):
        parse_grant([text])


def test_several_grants_are_read_from_several_words() -> None:
    assert parse_grant(["minutes=30, calls=50", "deadline=+2h"]) == {"minutes": "30", "calls": "50", "deadline": "+2h"}
