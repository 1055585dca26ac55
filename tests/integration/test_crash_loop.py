"""A run whose lives end in crashes: after three takeovers without progress it waits for a person (semantics #42)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure.core.lives import next_takeover
from perdure.testing.crash import Launcher, Life, Order

AGENT = """
import os

LIVES = {folder!r} + "/lives"


def crash(run):
    open(LIVES, "a").write("life\\n")
    os._exit(9)


def further(run):
    '''Gets one memo further in each life.'''
    open(LIVES, "a").write("life\\n")
    for number in range(run.attempt):
        run.memo(f"part {{number}}", int)
    run.checkpoint()
    os._exit(9)


def good(run):
    return "good"
"""


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as found:
        yield found


class Bench:
    """A ledger and an agent that crashes."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self.folder, self._launcher = folder, launcher
        (folder / "agent.py").write_text(AGENT.format(folder=str(folder)), "utf-8")

    def live(self, main: str = "crash", *, resume: bool = False, run_id: str = "r1") -> Life:
        job = f"{self.folder / 'agent.py'}:{main}"
        return self._launcher.live(Order(job=job, state_dir=str(self.folder / "s"), run_id=run_id, reopens=resume))

    def lived(self) -> int:
        """How often the agent was entered."""
        return len((self.folder / "lives").read_text().splitlines())


@pytest.fixture
def bench(tmp_path: Path, launcher: Launcher) -> Bench:
    return Bench(tmp_path, launcher)


def test_three_takeovers_without_progress_park_the_run_and_others_go_on(bench: Bench) -> None:
    assert [bench.live().exit_code for _ in range(4)] == [9] * 4
    parked = bench.live()
    assert (parked.status, parked.document["reason"], parked.exit_code, bench.lived()) == (
        "waiting",
        "crash_loop",
        6,
        4,
    )
    (item,) = parked.document["waiting_for"]
    assert (item["kind"], item["id"]) == ("crash_loop", "r1")
    assert item["commands"][0].startswith("perdure resume r1")
    assert item["commands"][1].startswith("perdure runs cancel r1")
    with perdure.open(state_dir=bench.folder / "s") as engine:
        assert [(run_id, waits.kind) for run_id, waits in engine.inbox()] == [("r1", "crash_loop")]
        assert engine.outcome("r1").exit_code == 6
    assert bench.live("good", run_id="r2").status == "succeeded"
    assert (bench.live().status, bench.lived()) == ("waiting", 4), "and it stays parked"


def test_an_explicit_resume_always_gets_one_life(bench: Bench) -> None:
    for _ in range(5):
        bench.live()
    assert (bench.live(resume=True).exit_code, bench.lived()) == (9, 5)
    assert (bench.live().document["reason"], bench.lived()) == ("crash_loop", 5), "nothing was settled since"
    assert (bench.live(resume=True).exit_code, bench.lived()) == (9, 6)
    assert (bench.live(resume=True).exit_code, bench.lived()) == (9, 7), "also of a life that has just crashed"


def test_explicit_resumes_are_not_counted(bench: Bench) -> None:
    bench.live()
    assert [bench.live(resume=True).exit_code for _ in range(5)] == [9] * 5
    assert [bench.live().exit_code for _ in range(3)] == [9] * 3
    assert (bench.live().document["reason"], bench.lived()) == ("crash_loop", 9)


def test_a_run_that_gets_further_in_each_life_is_never_parked(bench: Bench) -> None:
    assert [bench.live("further").exit_code for _ in range(7)] == [9] * 7
    assert bench.lived() == 7


def test_a_parked_run_can_be_cancelled(bench: Bench) -> None:
    for _ in range(5):
        bench.live()
    with perdure.open(state_dir=bench.folder / "s") as engine:
        assert engine.cancel("r1").status == "cancelled"
        assert engine.inbox() == []


@pytest.mark.parametrize(
    ("takeovers", "before", "now", "number"),
    [(0, 0, 0, 1), (1, 0, 0, 2), (2, 0, 0, 3), (3, 0, 0, None), (3, 0, 1, 1), (3, 5, 5, None), (1, 5, 6, 1)],
)
def test_what_is_counted(takeovers: int, before: int, now: int, number: int | None) -> None:
    assert next_takeover(takeovers, before, now) == number
