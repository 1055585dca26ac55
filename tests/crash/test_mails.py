"""Ten mails to ten people are ten, and three identical reminders are three, wherever the run is killed (semantics #1–#4, #8)."""

import pytest

from tests.crash.loop import SOME, Bench, kinds_of_points
from tests.crash.programs import mails


@pytest.mark.parametrize(
    ("function", "tool"),
    [("ten", "keyed_scoped"), ("ten", "probed_open"), ("ten_side_by_side", "probed_scoped")],
)
def test_ten_mails_to_ten_people_are_ten(bench: Bench, function: str, tool: str) -> None:
    passages = bench.loop(mails(function, tool), every=SOME)
    assert sum(1 for passage in passages if passage.crashed_at) >= 60 // SOME
    assert not any(passage.answers for passage in passages), "nobody need be asked"
    if SOME == 1:
        assert {f"before tool {tool}", f"after tool {tool}"} <= set(kinds_of_points(passages))


def test_ten_mails_with_a_person_who_looks_are_ten(bench: Bench) -> None:
    passages = bench.loop(mails("ten", "asked_open"))
    assert all(len(passage.answers) == passage.was_due for passage in passages)
    assert {word for passage in passages for word in passage.answers} == {"happened", "did_not_happen"}


@pytest.mark.parametrize(
    ("function", "tool"),
    [("reminders", "keyed_scoped"), ("reminders", "probed_open"), ("reminders", "asked_open"),
     ("twin_reminders", "keyed_open"), ("twin_reminders", "asked_scoped")],
)  # fmt: skip
def test_three_identical_reminders_on_purpose_are_three(bench: Bench, function: str, tool: str) -> None:
    passages = bench.loop(mails(function, tool), every=SOME)
    assert sum(1 for passage in passages if passage.crashed_at) >= 30 // SOME
    assert any(passage.answers for passage in passages) == tool.startswith("asked")


def test_a_probe_that_finds_another_reminder_settles_nothing(bench: Bench) -> None:
    passages = bench.loop(mails("reminders", "probed_by_name", quarrels=True))
    assert any(passage.answers for passage in passages), "a person had to say which of them it was"
