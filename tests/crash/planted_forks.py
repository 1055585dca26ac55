"""Safety rules of forks, each broken once on purpose."""

from typing import Any

from perdure.runtime import forks, lineage, simulation, starting
from tests.crash.planting import planting


@planting("gateway", "test_forks.py::test_a_broken_rule_of_forks_is_seen")
def a_simulation_enters_the_tool() -> None:
    """What stands in for a tool in a fork that sends nothing is the tool itself."""
    simulation.stand_in = lambda dispatch, operation: dispatch


@planting("store", "test_forks.py::test_a_broken_rule_of_keys_is_seen_where_a_person_wants_another")
def a_fork_uses_the_keys_of_its_parent() -> None:
    """A fork's calls are given the keys that its parent's calls of the same kind would have."""
    honest = starting.idempotency_key

    def key(ledger_id: str, run_id: str, *parts: Any) -> str:
        return honest(ledger_id, "p", *parts)

    starting.idempotency_key = forks.idempotency_key = key


@planting("gateway", "test_forks.py::test_a_broken_rule_of_forks_is_seen")
def what_a_parent_did_later_is_no_concern_of_a_fork() -> None:
    """A live fork does not look at the effects of its parent that it has not inherited."""
    lineage.Lineage.look = lambda self, store, key: []  # type: ignore[method-assign]


@planting("gateway", "test_forks.py::test_a_broken_rule_of_forks_is_seen")
def a_fork_adopts_what_its_parent_did_later() -> None:
    """A fork inherits every receipt of its parent, whatever its checkpoint is."""
    honest = forks.inherited

    def everything(rows: Any, point: Any, **options: Any) -> Any:
        return honest(rows, type(point)(10**9, "9999"), **options)

    forks.inherited = everything
