"""Programs in which a naive rule would lose or repeat an effect, killed at every point (semantics §4)."""

import pytest

from tests.crash.loop import SOME, Bench, Passage
from tests.crash.programs import DECLINED, LOST_REPLIES, RETRIED, TWO_MINDS, changed, deduped, memo_with_effects


def crashes(passages: list[Passage]) -> int:
    return sum(1 for passage in passages if passage.crashed_at)


@pytest.mark.parametrize("tool", ["keyed_open", "asked_scoped"])
def test_the_calls_inside_a_memo_happen_once(bench: Bench, tool: str) -> None:
    passages = bench.loop(memo_with_effects(tool), every=SOME)
    assert crashes(passages) >= 30 // SOME
    assert all(len(passage.answers) == passage.was_due for passage in passages)


def test_a_declined_card_is_not_tried_again(bench: Bench) -> None:
    passages = bench.loop(DECLINED, every=SOME)
    assert crashes(passages) >= 25 // SOME
    assert not any(passage.answers for passage in passages)


def test_a_call_that_did_nothing_is_tried_again(bench: Bench) -> None:
    passages = bench.loop(RETRIED, every=SOME)
    assert crashes(passages) >= 30 // SOME
    assert not any(passage.answers for passage in passages)


def test_lost_replies_are_settled_in_the_life_that_lost_them(bench: Bench) -> None:
    passages = bench.loop(LOST_REPLIES, every=SOME)
    assert crashes(passages) >= 30 // SOME
    answers = {passage.answers for passage in passages}
    assert ("happened",) in answers
    assert answers - {("happened",)} <= {("did_not_happen", "happened")}
    if SOME == 1:
        assert ("did_not_happen", "happened") in answers


@pytest.mark.parametrize("tool", ["keyed_open", "probed_scoped", "asked_open"])
def test_changed_wording_is_asked_about_and_not_sent_twice(bench: Bench, tool: str) -> None:
    passages = bench.loop(changed(tool), every=SOME)
    assert crashes(passages) >= 20 // SOME
    assert any("same" in passage.answers for passage in passages)


@pytest.mark.parametrize("tool", ["probed_scoped", "asked_scoped"])
def test_a_dedupe_key_makes_changed_wording_one_effect(bench: Bench, tool: str) -> None:
    passages = bench.loop(deduped(tool), every=SOME)
    assert crashes(passages) >= 20 // SOME
    assert not any("same" in passage.answers for passage in passages)


def test_what_nobody_asks_for_any_more_is_not_sent(bench: Bench) -> None:
    """A row that was signed but never started is sent only when it is asked for again (semantics #19)."""
    passages = bench.loop(TWO_MINDS)
    assert crashes(passages) >= 18
    assert any(passage.answers == ("approved",) for passage in passages)
