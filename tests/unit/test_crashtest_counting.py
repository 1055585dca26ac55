"""What a crash test counts as expected, repeated and lost."""

from __future__ import annotations

from typing import Any

from perdure.testing.crashtest.counting import (
    ARGUMENTS,
    SCOPE,
    TOOL,
    Effect,
    Expected,
    compare,
    effects_of,
    expect,
    texts,
)

ONCE = frozenset({"keyed"})


def mail(key: str, to: str = "a", text: str = "x") -> Effect:
    return Effect("mail", key, f"(text={text}, to={to})", f"(to={to})")


def entry(key: str, *, left: bool | None = None, tool: str = "mail") -> Effect:
    return Effect(tool, key, "()", None, is_entry=True, left=left)


def line(event: str, key: str, **more: Any) -> dict[str, Any]:
    body = {"run": "r", "tool": "mail", "key": key, "arguments": "()", "scope": None, "event": event, **more}
    return {"event": "effect", "body": body}


def test_effects_are_told_apart_as_exactly_as_clean_runs_agree() -> None:
    assert expect([[mail("1")], [mail("2")]]).levels == {"mail": ARGUMENTS}
    assert expect([[mail("1", text="x")], [mail("2", text="y")]]).levels == {"mail": SCOPE}
    assert expect([[mail("1", to="a")], [mail("2", to="b")]]).levels == {"mail": TOOL}
    unsteady = expect([[mail("1")], [mail("2"), mail("3")]])
    assert (unsteady.levels, unsteady.counts, unsteady.unsteady) == ({}, {}, ("mail",))


def test_a_job_that_repeats_on_purpose_is_expected_to() -> None:
    expected = expect([[mail("1"), mail("2")], [mail("3"), mail("4")]])
    assert list(expected.counts.values()) == [2]
    assert compare([mail("5"), mail("6")], expected).repeated == {}
    assert list(compare([mail("5")], expected).lost.values()) == [(1, 2)]
    assert list(compare([mail("5"), mail("6"), mail("7")], expected).repeated.values()) == [(3, 2)]


def test_two_effects_of_one_call_are_a_repeat_even_where_the_number_is_right() -> None:
    expected = expect([[mail("1"), mail("2")]] * 2)
    assert list(compare([mail("5"), mail("5")], expected).repeated.values()) == [(2, 1)]


def test_an_effect_that_no_clean_run_has_is_too_much() -> None:
    found = compare([mail("1"), Effect("alarm", "2", "()")], expect([[mail("8")], [mail("9")]]))
    assert found.repeated == {"alarm": (1, 0)}
    assert found.lost == {}


def test_of_an_unsteady_tool_only_doubles_of_one_call_count() -> None:
    expected = Expected({}, {}, ("mail",))
    assert compare([mail("1"), mail("2"), mail("3")], expected).repeated == {}
    assert compare([mail("1"), mail("1")], expected).repeated == {"mail": (2, 1)}


def test_a_body_that_is_entered_again_before_it_was_left_may_have_done_nothing() -> None:
    expected = expect([[entry("8", left=True)]] * 2)
    assert compare([entry("1"), entry("1", left=True)], expected).repeated == {}
    assert compare([entry("1", left=True), entry("1", left=True)], expected).repeated == {"mail()": (2, 1)}


def test_a_body_whose_provider_knows_the_key_may_be_entered_again() -> None:
    expected = expect([[entry("8", left=True, tool="keyed")]] * 2, ONCE)
    again = [entry("1", left=True, tool="keyed"), entry("1", left=True, tool="keyed")]
    assert compare(again, expected, ONCE).repeated == {}
    assert compare(again, expected).repeated == {"keyed()": (2, 1)}


def test_only_the_lines_of_one_run_are_read_and_leaving_closes_an_entry() -> None:
    log = [line("entered", "1"), line("left", "1", value=3), line("entered", "1"), line("effect", "2"),
           line("effect", "3", run="other"), {"event": "held", "what": "x"}]  # fmt: skip
    found = effects_of(log, "r")
    assert [(effect.key, effect.is_entry, effect.left) for effect in found] == [
        ("1", True, True), ("1", True, None), ("2", False, None)]  # fmt: skip


def test_long_values_are_short_and_still_differ() -> None:
    one, _ = texts({"text": "x" * 5000 + "1"}, None)
    other, scope = texts({"text": "x" * 5000 + "2", "at": 1}, ["text"], volatile=["at"])
    assert len(one) < 120 and one != other
    assert scope == other
