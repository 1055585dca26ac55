"""Safety rules of a model's loop, each broken once on purpose."""

from dataclasses import replace
from typing import Any

from perdure.core.identity import Gate
from perdure.runtime import guarding
from tests.crash.planting import planting


@planting("gateway", "test_turns.py::test_a_model_that_is_not_told_what_was_done_does_it_again")
def a_model_is_taken_for_a_program() -> None:
    """G3 is that of a program: what a model has seen done is repeated as it likes, in any wording."""
    honest = guarding._guard_facts

    def facts(*given: Any) -> Any:
        return replace(honest(*given), model_driven=False)

    guarding._guard_facts = facts


@planting("gateway", "test_turns.py::test_a_citation_that_the_guard_lets_through_is_stopped_by_the_rows_themselves")
def every_citation_is_valid() -> None:
    """G3 passes any `repeat_of`, of whatever receipt and however often."""
    honest = guarding.guard

    def lenient(facts: Any) -> Any:
        gate, against = honest(facts)
        return (Gate.PASS, ()) if gate is Gate.WRONG_CITATION else (gate, against)

    guarding.guard = lenient
