"""The five-tool reference job, killed at every numbered point until none is left (design.md §9)."""

import pytest

from tests.crash.loop import Bench, Passage, Program, kinds_of_points
from tests.crash.programs import REFERENCE, REFERENCE_ASYNC
from tests.crash.support import AFTER_TOOL

STORE_POINTS = {
    "before commit", "after commit", "before insert_run", "before claim_run", "before insert_attempt",
    "before insert_step", "before insert_call", "before succeed_call", "before move_step", "before insert_checkpoint",
    "before end_run", "before end_attempt",
}  # fmt: skip
WALKS_MORE = 3
POINTS_OF_SETTLING = 26  # what comes later in that life is what the first loop goes through
EDGES = {f"{when} tool {name}" for when in ("before", "after") for name in ("create", "keyed", "probed", "asked")}


def check_progress(passages: list[Passage], *, points: int) -> None:
    """Work must have happened: many points, and a new life after each crash."""
    crashed = [passage for passage in passages if passage.crashed_at]
    ended = [passage for passage in passages if not passage.crashed_at]
    assert len(crashed) >= points
    assert all(passage.points_passed >= points for passage in ended)
    assert all(passage.lives >= 2 + passage.was_due for passage in crashed)
    assert all(passage.lives == 1 for passage in ended)


def missing_kinds(passages: list[Passage]) -> set[str]:
    """The kinds of point at which no life was killed."""
    return (STORE_POINTS | EDGES) - set(kinds_of_points(passages))


def check_doubts(passages: list[Passage]) -> None:
    """A person was asked exactly where the asked call was started and its receipt not stored, and said both."""
    for passage in passages:
        assert len(passage.answers) == passage.was_due, passage
    said = {word for passage in passages for word in passage.answers}
    assert said == {"happened", "did_not_happen"}


@pytest.mark.parametrize("program", [REFERENCE, REFERENCE_ASYNC], ids=["sync", "async"])
def test_every_effect_happens_once_wherever_the_run_is_killed(bench: Bench, program: Program) -> None:
    passages = bench.loop(program)
    for _ in range(WALKS_MORE):
        # Whether a receipt has a commit of its own is a matter of timing, so a number may name a neighbour of its point.
        passages += bench.loop(program) if missing_kinds(passages) else []
    assert not missing_kinds(passages)
    check_progress(passages, points=60)
    check_doubts(passages)


@pytest.mark.parametrize("tool", ["create", "keyed", "probed", "asked"])
def test_the_life_that_settles_may_be_killed_at_every_point_too(bench: Bench, tool: str) -> None:
    passages = bench.loop(REFERENCE, before=({AFTER_TOOL: tool},), up_to=POINTS_OF_SETTLING)
    assert len(passages) >= 10
    if tool == "asked":
        assert all(passage.was_due for passage in passages)
    kinds = kinds_of_points(passages)
    assert {"before move_call", "before claim_run", "before add_evidence"} <= set(kinds), kinds
