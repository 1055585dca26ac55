"""The word that a passage gets, the advice that a tool gets, and what may be typed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perdure.model.errors import UsageError
from perdure.testing.crashtest.advice import ToolFacts, advice
from perdure.testing.crashtest.counting import Difference
from perdure.testing.crashtest.plan import Plan, parse_points, parse_returns
from perdure.testing.crashtest.verdict import Asked, Passage, Verdict, tally, trouble_of

NOTHING = Difference({}, {})
ASKED = Asked("in_doubt", "mail", 'mail(to="a (b): c"): did it happen? only a person can tell', "happened")
FINE = Passage(7, "after tool mail", 3, (), "", NOTHING)
TOOL = ToolFacts("mail", "local", "external", "ASK", "ask", ("to",), declared=True, gets_key=False, probe_lag_seconds=0)


@pytest.mark.parametrize(
    ("passage", "verdict"),
    [
        (FINE, Verdict.FINISHED),
        (replace(FINE, questions=(ASKED,)), Verdict.WAITS),
        (replace(FINE, questions=(ASKED,), difference=Difference({}, {"mail": (0, 1)})), Verdict.LOST),
        (replace(FINE, trouble="it failed", difference=Difference({}, {"mail": (0, 1)})), Verdict.STUCK),
        (replace(FINE, trouble="it failed", difference=Difference({"mail": (2, 1)}, {})), Verdict.REPEATED),
    ],
)
def test_the_worst_that_is_true_is_said(passage: Passage, verdict: Verdict) -> None:
    assert passage.verdict is verdict
    assert verdict.is_bad == (verdict not in (Verdict.FINISHED, Verdict.WAITS))
    assert tally([passage, FINE])[verdict] == 1 + (verdict is Verdict.FINISHED)


def test_reasons_name_the_effect_and_the_question_without_its_arguments() -> None:
    passage = replace(FINE, questions=(ASKED, ASKED), difference=Difference({"mail(x)": (2, 1)}, {}))
    assert passage.reasons == ["mail(x) happened 2 times, not 1", "mail: did it happen? only a person can tell"]
    looks_alike = Asked("challenge", "mail", 'mail: an earlier life did r.1 mail(); is this the same or another?; use run.memo', "same")  # fmt: skip
    assert looks_alike.brief.endswith("(use run.memo)")


@pytest.mark.parametrize(
    ("life", "said"),
    [
        ({"document": {"status": "succeeded"}}, ""),
        ({"document": {"status": "waiting"}}, ""),
        ({"document": {"status": "failed", "error": {"code": "ValueError", "detail": "no"}}}, "ValueError no"),
        ({"document": {"schema": "perdure.error/v1", "code": "PERDURE-403", "message": "full"}}, "PERDURE-403: full"),
        ({"document": {}, "exit_code": -11}, "exit code -11"),
        ({"document": {}, "too_long": True}, "did not end in time"),
    ],
)
def test_a_life_that_neither_succeeded_nor_waits_is_trouble(life: dict[str, object], said: str) -> None:
    found = trouble_of({"too_long": False, "exit_code": 1, "stderr": "", **life})
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["@probe", "key_ttl"]),
        ({"declared": False}, ["read_only"]),
        ({"scope": None}, ["scope=["]),
        ({"guarantee": "keyed 24h"}, ["takes no `call`"]),
        ({"guarantee": "keyed 24h", "gets_key": True}, ["@probe"]),
        ({"guarantee": "probe"}, []),
        ({"guarantee": "create-if-absent", "scope": None}, []),
        ({"guarantee": "rerun", "side_effect_class": "read_only", "scope": None}, []),
        ({"guarantee": "probe", "warnings": ("scope names body: wording may change per life",)}, ["wording"]),
    ],
)
def test_advice_says_what_to_do_or_nothing(changes: dict[str, object], words: list[str]) -> None:
    told = advice(replace(TOOL, **changes))  # type: ignore[arg-type]
    assert all(word in told for word in words), told
    assert bool(told) == bool(words)


def test_a_list_of_points_is_numbers_and_ranges() -> None:
    assert parse_points("1-3,33, 2") == (1, 2, 3, 33)
    assert list(Plan("j", Path(), points=(4, 9, 12), max_points=2).numbers()) == [4, 9]
    for text in ("", "0", "3-1", "a", "1-", "-2", "1,,2", "²"):
        with pytest.raises(UsageError):
            parse_points(text)


def test_returns_are_json_by_tool() -> None:
    assert parse_returns(["mail={\"id\": 1}", "memo:draft=\"a=b\"", "*=null"]) == {
        "mail": {"id": 1}, "memo:draft": "a=b", "*": None}  # fmt: skip
    for pair in ("mail", "=1", "mail=sent", "mail={"):
        with pytest.raises(UsageError):
            parse_returns([pair])
    with pytest.raises(UsageError, match="twice"):
        parse_returns(["a=1", "a=2"])
