"""A fork that is killed anywhere sends nothing twice and nothing that it only simulates, and its parent stays as it was."""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.testing.provider.client import Provider
from tests.crash import forking
from tests.integration.engine_support import open_engine

CRASHED, WAITS = 137, 4
EVERY = 17  # every fifth was green too, and takes three times as long
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["perdure.engine", "tests.crash.forking"])


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with Provider(tmp_path_factory.mktemp("provider") / "provider.jsonl", fsync=False) as found:
        yield found


def life(
    folder: Path, provider: Provider, effects: str, rest: list[str], point: int | None, bug: str = ""
) -> int | None:
    """Return how one life of the fork left."""
    process = FORKING.Process(target=forking.live, args=(folder, provider.url, effects, rest, point, bug))
    process.start()
    process.join(20)
    return process.exitcode


def parent(folder: Path, provider: Provider) -> None:
    provider.begin_again()
    with open_engine(folder) as engine:
        engine.run(forking.agent(provider.url), {"rest": ["second", "third"]}, run_id="p")


@pytest.mark.parametrize("effects", ["simulate", "live"])
def test_a_fork_that_is_killed_anywhere_does_its_own_effects_once_and_simulates_none(
    tmp_path: Path, provider: Provider, effects: str
) -> None:
    rest = ["second of fork", "third of fork"]
    wanted = Counter(["first", "second", "third", *(rest if effects == "live" else [])])
    killed = 0
    for point in range(1, 400, EVERY):
        folder = tmp_path / str(point)
        parent(folder, provider)
        with open_engine(folder) as engine:
            before = engine.calls("p"), engine.details("p")["lives"]
        code = life(folder, provider, effects, rest, point)
        passed_all = code == 0
        if code == CRASHED:
            killed += 1
            code = life(folder, provider, effects, rest, None)
        assert code == 0, point
        with open_engine(folder) as engine:
            assert (engine.calls("p"), engine.details("p")["lives"]) == before
            found = engine.outcome("f")
        assert Counter(provider.counts()) == wanted, point
        assert (found.inherited, found.simulated) == (1, 2 if effects == "simulate" else 0)
        if passed_all:
            break
    assert killed > 2


@pytest.mark.parametrize(
    ("bug", "effects", "rest", "left", "seen"),
    [
        ("a_simulation_enters_the_tool", "simulate", ["x"], (0, 1), (0, 0)),
        ("what_a_parent_did_later_is_no_concern_of_a_fork", "live", ["second"], (0, 1), (WAITS, 0)),
        ("a_fork_adopts_what_its_parent_did_later", "live", ["second"], (0, 0), (WAITS, 0)),
    ],
)
def test_a_broken_rule_of_forks_is_seen(
    tmp_path: Path,
    provider: Provider,
    bug: str,
    effects: str,
    rest: list[str],
    left: tuple[int, int],
    seen: tuple[int, int],
) -> None:
    """Each rule broken, and whole: how the fork leaves, and what arrives that the parent did not send."""
    for planted, (code, arrived) in ((bug, left), ("", seen)):
        folder = tmp_path / (planted or "whole")
        parent(folder, provider)
        before = sum(provider.counts().values())
        assert life(folder, provider, effects, rest, None, planted) == code
        assert sum(provider.counts().values()) - before == arrived


def test_a_broken_rule_of_keys_is_seen_where_a_person_wants_another(tmp_path: Path, provider: Provider) -> None:
    """With ``a_fork_uses_the_keys_of_its_parent`` the ledger itself refuses the second row of one key."""
    for planted, ok in (("a_fork_uses_the_keys_of_its_parent", False), ("", True)):
        folder = tmp_path / (planted or "whole")
        parent(folder, provider)
        assert (life(folder, provider, "simulate", ["second"], None, planted) == 0) is ok
