"""Power loss at every cut of what the disk was told: nothing promised is lost, and nothing is done twice after it."""

import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import perdure
from perdure.core.codec import decode
from perdure.model.errors import SecretUnavailable
from perdure.ports.clock import SystemClock
from perdure.store.open import open_store
from perdure.store.sql_store import SqlStore
from tests.crash import power_loss_vfs as disk
from tests.crash.power_loss_vfs import Entry, Platter
from tests.crash.support import ROOT

MAINS = {"in_a_row": disk.in_a_row, "side_by_side": disk.side_by_side}
STARTED = frozenset({"running", "in_doubt", "succeeded", "failed"})
KEPT = (0.05, 0.5, 0.95)
QUICK = perdure.Tuning(quiet_seconds=0.02, first_retry_seconds=0.001)
Tell = Callable[[str, object], None]


class Broken(AssertionError):
    """A promise was broken by a loss of power."""

    def __init__(self, cut: int, promise: str, detail: str) -> None:
        super().__init__(f"after a loss of power at cut {cut}, {promise}: {detail}")
        self.promise = promise


@dataclass
class Promised:
    """What the outside has seen before a cut."""

    effects: dict[str, dict[str, str]] = field(default_factory=dict)
    receipts: dict[str, Any] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    def take(self, entry: Entry) -> bool:
        """Go on by one entry and say whether it was of the outside."""
        if entry[0] == "effect":
            assert entry[1] not in self.effects, "the recorded run repeats an effect"
            self.effects[entry[1]] = entry[2]
        elif entry[0] == "told":
            self.receipts[entry[1]] = entry[2]
        elif entry[0] == "ended":
            self.ended.add(entry[1])
        else:
            return False
        return True


@dataclass(frozen=True)
class Left:
    """What a ledger that was opened after a loss of power says."""

    calls: dict[str, tuple[str, dict[str, Any], Any]]
    runs: dict[str, str]

    @classmethod
    def read(cls, store: SqlStore) -> "Left":
        """Read the rows of the senders, by the name of the effect that each asks for."""
        calls = {}
        sql = "SELECT call_no, status FROM tool_calls WHERE tool_name LIKE 'send%'"
        for call_no, status in list(store.connection.rows(sql, {})):
            try:
                request, response = decode(store.calls.request(call_no)), store.calls.response(call_no)
            except SecretUnavailable:
                continue  # a row that cannot be read is no record
            assert request["what"] not in calls, "two rows of one effect"
            calls[request["what"]] = (status, request, None if response is None else decode(response))
        return cls(calls, dict(store.connection.rows("SELECT run_id, status FROM runs", {})))

    def compare(self, cut: int, promised: Promised) -> None:
        """Hold the rows against what the outside has seen.

        Raises:
            Broken: a promise was not kept.
        """
        for what, arguments in promised.effects.items():
            status, request, _ = self.calls.get(what, ("none", None, None))
            if status not in STARTED or request != arguments:
                raise Broken(cut, "an effect has no record", f"{what} is {status}")
        for what, value in promised.receipts.items():
            status, _, response = self.calls[what]
            if (status, response) != ("succeeded", value):
                raise Broken(cut, "a receipt is lost", f"{what} is {status}")
        for what, (status, _, _) in self.calls.items():
            if status == "succeeded" and what not in promised.effects:
                raise Broken(cut, "a receipt stands for nothing", what)
        for run_id in promised.ended:
            if self.runs.get(run_id) != "succeeded":
                raise Broken(cut, "an end is lost", f"{run_id} is {self.runs.get(run_id)}")


def recorded(folder: Path, *plants: str) -> list[Entry]:
    """Run the jobs in a process of its own and return what its disk and its outside were told."""
    log = folder / "log"
    command = [sys.executable, "-m", "tests.crash.power_loss_vfs", str(folder / "state"), str(log), *plants]
    subprocess.run(command, cwd=ROOT, check=True)
    entries: list[Entry] = pickle.loads(log.read_bytes())
    return entries


def opened(folder: Path) -> Left:
    """Open what is left as the next process would, and read it."""
    store = open_store(str(folder / "runtime_state.db"), SystemClock())
    try:
        assert list(store.connection.rows("PRAGMA integrity_check", {})) == [("ok",)]
        assert list(store.connection.rows("PRAGMA foreign_key_check", {})) == []
        return Left.read(store)
    finally:
        store.connection.close()


def lose_power_everywhere(log: list[Entry], folder: Path, *, seed: int | None = None) -> int:
    """Check the promises at every cut; return how many different sets of files were opened.

    What is not synced is lost as a whole, or, with a seed, sector by sector with a probability drawn for each cut.
    """
    platter, promised, chance = Platter(), Promised(), random.Random(seed)
    left, version, images = None, -1, 0
    for cut, entry in enumerate(log, 1):
        outside = promised.take(entry)
        if not outside:
            platter.take(entry)
        if left is None or (seed is not None and not outside) or platter.version != version:
            version, images = platter.version, images + 1
            with TemporaryDirectory(dir=folder) as made:
                platter.leave(Path(made), 0.0 if seed is None else chance.choice(KEPT), chance)
                left = opened(Path(made))
        left.compare(cut, promised)
    return images


@pytest.fixture(scope="module")
def log() -> Iterator[list[Entry]]:
    """What the disk of two runs was told, and what the outside saw."""
    with TemporaryDirectory() as folder:
        yield recorded(Path(folder))


def test_the_recorded_runs_did_something(log: list[Entry]) -> None:
    kinds = Counter(entry[0] for entry in log)
    assert (kinds["effect"], kinds["told"], kinds["ended"]) == (8, 8, 2)
    assert kinds["sync"] >= 20
    assert {entry[1].rpartition("-")[2] for entry in log if entry[0] == "sync"} >= {"journal", "wal"}
    assert ("folder",) in log[log.index(("sync", next(entry[1] for entry in log if entry[0] == "link"))) :]
    names = ("runtime_state.db", "runtime_state.db-wal")
    assert all(sum(entry[:2] == ("write", name) for entry in log) > 20 for name in names)


def test_power_is_lost_with_all_that_was_not_synced(
    log: list[Entry], quick_folder: Path, record_property: Tell
) -> None:
    disks = lose_power_everywhere(log, quick_folder)
    record_property("cuts", len(log))
    record_property("disks", disks)
    assert disks > 20


def test_power_is_lost_with_some_sectors_written_and_some_not(
    log: list[Entry], quick_folder: Path, record_property: Tell
) -> None:
    disks = lose_power_everywhere(log, quick_folder, seed=20261122)
    record_property("cuts", len(log))
    record_property("disks", disks)
    assert disks > 400


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_runs_go_on_after_the_loss_and_repeat_nothing(
    log: list[Entry], quick_folder: Path, monkeypatch: pytest.MonkeyPatch, kept: float
) -> None:
    """At each effect, and after the commit that follows it; a person who has seen the outside answers what is asked."""
    seen: Counter[str] = Counter()
    monkeypatch.setattr(disk.DOORSTEP, "happens", lambda what, text: seen.update([what]) or {"done": what, "as": text})
    platter, promised, chance = Platter(), Promised(), random.Random(7)
    cuts = {at + later for at, entry in enumerate(log) if entry[0] == "effect" for later in (0, 1)}
    asked = 0
    for cut, entry in enumerate(log):
        if cut in cuts:
            with TemporaryDirectory(dir=quick_folder) as made:
                platter.leave(Path(made), kept, chance)
                seen.clear()
                seen.update(promised.effects.keys())
                asked += go_on(Path(made), promised)
                assert seen == dict.fromkeys(("one", "two", "three", "four", "five", "six", "seven", "eight"), 1), cut
        if not promised.take(entry):
            platter.take(entry)
    assert asked >= 8


def go_on(folder: Path, promised: Promised) -> int:
    """Bring both runs to their end and return how many answers that took."""
    answers = 0
    with perdure.open(state_dir=folder, tuning=QUICK) as engine:
        for run_id, main in MAINS.items():
            known = any(row.run_id == run_id for row in engine.runs())
            outcome = engine.resume(run_id, main=main) if known else engine.run(main, run_id=run_id)
            while outcome.status == "waiting":
                for item in outcome.waiting_for:
                    assert item.kind == "in_doubt"
                    arguments = decode(engine.call(item.tool_call_id or "")["request"])
                    happened = arguments["what"] in promised.effects
                    result = {"done": arguments["what"], "as": arguments["text"]}
                    engine.resolve(item.tool_call_id or "", "happened" if happened else "did_not_happen",
                                   result=result if happened else None)  # fmt: skip
                    answers += 1
                outcome = engine.resume(run_id, main=main)
            assert outcome.status == "succeeded", outcome
    return answers


@pytest.mark.parametrize(
    ("bug", "promise"),
    [
        ("commits_are_not_synced", "an effect has no record"),
        ("the_tool_acts_before_the_record", "an effect has no record"),
        ("waiters_are_answered_before_the_commit", "an effect has no record"),
        ("the_key_of_secrets_is_not_synced", "an effect has no record"),
    ],
)
def test_a_planted_bug_is_caught(tmp_path: Path, quick_folder: Path, bug: str, promise: str) -> None:
    """With NORMAL an integrity check says ok after each loss: only somebody outside can tell."""
    entries = recorded(tmp_path, bug)
    assert Counter(entry[0] for entry in entries)["effect"] == 8
    with pytest.raises(Broken) as found:
        lose_power_everywhere(entries, quick_folder)
    assert found.value.promise == promise
