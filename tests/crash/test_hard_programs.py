"""Programs in which a naive rule would lose or repeat an effect, killed at every point (semantics §4)."""

import pytest

from tests.crash.loop import Bench, Fault, Passage, Program


def crashes(passages: list[Passage]) -> int:
    return sum(1 for passage in passages if passage.crashed_at)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("tool", ["keyed_open", "asked_scoped"])
def test_the_calls_inside_a_memo_happen_once(bench: Bench, tool: str) -> None:
    effects = dict.fromkeys(("inner0", "inner1", "outer"), 1)
    program = Program("hard:memo_with_effects", effects, {"tool": tool}, result_names_effects=True)
    assert crashes(bench.loop(program)) >= 30


@pytest.mark.timeout(120)
def test_a_declined_card_is_never_tried_again(bench: Bench) -> None:
    refused = Fault("keyed", "A", {"reject_before_effect": 402, "next": None})
    program = Program("hard:declined", {"B": 1}, faults=(refused,), failures=(1,), result_names_effects=True)
    assert crashes(bench.loop(program)) >= 25
    tries = [line for line in bench.provider.log() if line["event"] == "rejected"]
    assert tries, "the declined card was never tried at all"


@pytest.mark.timeout(120)
def test_a_call_that_did_nothing_is_tried_again(bench: Bench) -> None:
    busy = Fault("keyed", "first", {"reject_before_effect": 503, "next": 2})
    program = Program("hard:retried", {"first": 1, "second": 1}, faults=(busy,), result_names_effects=True)
    passages = bench.loop(program)
    assert crashes(passages) >= 30
    assert not any(passage.answers for passage in passages)


@pytest.mark.timeout(120)
def test_lost_replies_are_settled_in_the_same_life(bench: Bench) -> None:
    names = {"keyed_scoped": "keyed", "probed_scoped": "searchable", "asked_scoped": "plain", "keyed_open": "keyed"}
    lost = tuple(Fault(kind, name, {"drop_reply_after_effect": True}) for name, kind in names.items())
    program = Program("hard:lost_replies", dict.fromkeys(names, 1), faults=lost, result_names_effects=True)
    passages = bench.loop(program)
    assert crashes(passages) >= 30
    assert all(passage.answers in (("happened",), ("did_not_happen", "happened")) for passage in passages)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("tool", ["keyed_open", "probed_scoped", "asked_open"])
def test_changed_wording_is_asked_about_and_not_sent_twice(bench: Bench, tool: str) -> None:
    program = Program("hard:changed", {"mail": 1}, {"tool": tool}, questions=("challenge",))
    passages = bench.loop(program)
    assert any("same" in passage.answers for passage in passages)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("tool", ["probed_scoped", "asked_scoped"])
def test_a_dedupe_key_makes_changed_wording_one_effect(bench: Bench, tool: str) -> None:
    program = Program("hard:deduped", {"mail": 1}, {"tool": tool})
    assert not any("same" in passage.answers for passage in bench.loop(program))


@pytest.mark.timeout(120)
def test_what_nobody_asks_for_any_more_is_not_sent(bench: Bench) -> None:
    """A row that was never sent, or provably did nothing, is sent only when it is asked for again (semantics #19)."""
    busy = Fault("keyed", "wrong", {"reject_before_effect": 503, "next": None})
    program = Program("hard:two_minds", {"right": 1}, faults=(busy,), failures=(0, 1), quarrels=True)
    passages = bench.loop(program)
    assert crashes(passages) >= 40
