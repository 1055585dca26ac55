"""A model's loop, killed at every numbered point: an answer is stored with its calls, and each call is made once."""

import pytest

from tests.crash.loop import Bench, kinds_of_points
from tests.crash.programs import model_loop


@pytest.mark.timeout(120)
@pytest.mark.parametrize("function", ["main", "main_async"])
def test_what_a_random_model_asks_for_is_done_once_wherever_it_is_killed(bench: Bench, function: str) -> None:
    passages = bench.loop(model_loop(function))
    crashed = [passage for passage in passages if passage.crashed_at]
    assert len(crashed) >= 50
    assert all(len(passage.answers) == passage.was_due for passage in passages)
    assert {"before bind_turn_call", "before challenge_call"} <= set(kinds_of_points(passages))
