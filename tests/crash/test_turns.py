"""A model's loop, killed at every numbered point: an answer is stored with its calls, and each call is made once."""

import pytest

from tests.crash.loop import SOME, Bench, WrongCount, WrongWait, kinds_of_points
from tests.crash.programs import STUBBORN, model_loop


@pytest.mark.parametrize("function", ["main", "main_async"])
def test_what_a_random_model_asks_for_is_done_once_wherever_it_is_killed(bench: Bench, function: str) -> None:
    passages = bench.loop(model_loop(function), every=SOME)
    crashed = [passage for passage in passages if passage.crashed_at]
    assert len(crashed) >= 50 // SOME
    assert all(len(passage.answers) == passage.was_due for passage in passages)
    if SOME == 1 and function == "main":  # in the other one the number of a point is a matter of timing
        assert {"before bind_turn_call", "before challenge_call"} <= set(kinds_of_points(passages))


def test_a_model_that_cites_one_receipt_again_and_again_gets_one_more(bench: Bench) -> None:
    passages = bench.loop(STUBBORN, every=SOME)
    assert sum(1 for passage in passages if passage.crashed_at) >= 40 // SOME


@pytest.mark.parametrize("bug", ["a_model_is_taken_for_a_program"])
def test_a_model_that_is_not_told_what_was_done_does_it_again(bench: Bench, bug: str) -> None:
    with pytest.raises(WrongCount) as found:
        bench.loop(model_loop("main"), bug=bug, up_to=2)
    assert found.value.repeated == {"probed"}


@pytest.mark.parametrize("bug", ["every_citation_is_valid"])
def test_a_citation_that_the_guard_lets_through_is_stopped_by_the_rows_themselves(bench: Bench, bug: str) -> None:
    with pytest.raises(WrongWait, match=r"UNIQUE constraint failed: tool_calls\.repeat_of"):
        bench.loop(STUBBORN, bug=bug, up_to=2)
