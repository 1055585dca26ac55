"""Each line of the smoke test's checklist goes red for what it is there to see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.testing.smoke.checks import EXPECTED, judge
from perdure.testing.smoke.facts import Facts, LedgerFacts, Life, Row

ROWS = tuple(
    Row(f"smoke.{name}{number}", name, "external", "succeeded", f"key-{name}{number}")
    for name, times in EXPECTED.items()
    for number in range(times)
)
EFFECTS: tuple[dict[str, Any], ...] = tuple(
    {
        "what": row.tool_name,
        "key": row.idempotency_key,
        **({"sha256": "f00"} if row.tool_name == "store_report" else {}),
    }
    for row in ROWS
)
LEDGER = LedgerFacts(ROWS, (), "succeeded", 0, 0, "f00", "ok")
LIVES = (Life("run", 1, 137, 137, "killed"), Life("resume", 2, -9, -9, "killed"), Life("resume", 3, 0, 0, "ends"))
GOOD = Facts(LIVES, ("post_notice",), True, "f00", LEDGER, EFFECTS)


def red(facts: Facts) -> set[str]:
    return {check.name for check in judge(facts) if not check.ok}


def rows_with(**changes: Any) -> LedgerFacts:
    return replace(LEDGER, rows=(replace(ROWS[0], **changes), *ROWS[1:]))


def test_a_good_build_has_no_red_line() -> None:
    assert red(GOOD) == set()


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (replace(GOOD, lives=(replace(LIVES[0], exit_code=0), *LIVES[1:])), "killed"),
        (replace(GOOD, lives=()), "killed"),
        (replace(GOOD, lives=(*LIVES[:2], replace(LIVES[2], exit_code=7))), "resumed"),
        (replace(GOOD, unchanged=False), "resumed"),
        (replace(GOOD, ledger=replace(LEDGER, run_status="failed")), "resumed"),
        (replace(GOOD, asked_about=()), "asked"),
        (replace(GOOD, asked_about=("post_notice", "pay")), "asked"),
        (replace(GOOD, file_sha256=None), "artifacts"),
        (replace(GOOD, file_sha256="bad"), "artifacts"),
        (replace(GOOD, ledger=replace(LEDGER, file_sha256="bad")), "artifacts"),
        (replace(GOOD, ledger=rows_with(status="in_doubt")), "receipts"),
        (replace(GOOD, ledger=replace(LEDGER, rows=(*ROWS, replace(ROWS[0], idempotency_key="new")))), "receipts"),
        (replace(GOOD, ledger=rows_with(idempotency_key=ROWS[1].idempotency_key)), "keys"),
        (replace(GOOD, effects=({**EFFECTS[0], "key": "of nobody"}, *EFFECTS[1:])), "keys"),
        (replace(GOOD, effects=tuple({"what": effect["what"]} for effect in EFFECTS)), "keys"),
        (replace(GOOD, effects=(*EFFECTS, EFFECTS[1])), "provider"),
        (replace(GOOD, effects=EFFECTS[:-1]), "provider"),
        (replace(GOOD, effects=(*EFFECTS, {"what": "stranger", "key": ROWS[0].idempotency_key})), "provider"),
        (replace(GOOD, ledger=replace(LEDGER, duplicates_found=1)), "ledger"),
        (replace(GOOD, ledger=replace(LEDGER, unmet=1)), "ledger"),
        (replace(GOOD, ledger=replace(LEDGER, integrity="row 7 missing from index")), "ledger"),
    ],
)
def test_each_fault_turns_its_line_red(facts: Facts, line: str) -> None:
    assert line in red(facts)
