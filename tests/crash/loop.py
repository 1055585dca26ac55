"""The crash-point loop: kill a life at one numbered point, resume in new processes until the run has ended, count.

What is counted is the provider's own log. A call waits in doubt exactly when its tool can be settled by nobody but a person
and the crash left its row `running`: after the commit of its intent and before that of its receipt.
"""

import re
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.crash.child import Order
from tests.crash.support import AT_POINT, Call, Ended, Launcher, LedgerFile, answer_doubts, planted
from tests.provider.client import Provider

SIDE_BY_SIDE = 2
LIVES_AT_MOST = 6
EFFECTFUL_POINT = re.compile(r"(before|after) tool (create|keyed|probed|asked)")


@dataclass(frozen=True)
class Program:
    """A job and the logical effects that one run of it is asked for, by the end of their names."""

    job: str
    effects: dict[str, int]
    inputs: dict[str, Any] = field(default_factory=dict, hash=False)
    tuning: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Passage:
    """What became of one run that was killed at one point (or of one that was not, where `crashed_at` is None)."""

    number: int
    crashed_at: str | None
    lives: int
    was_due: bool
    verdicts: tuple[str, ...]
    counts: dict[str, int]
    points_passed: int = 0


class Loss(AssertionError):
    """The provider did not see exactly what the program asked for."""


class Bench:
    """One provider and a few launchers, for many runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.provider = Provider(folder / "provider.jsonl", fsync=False)
        self._launchers: SimpleQueue[Launcher] = SimpleQueue()
        self._all: list[Launcher] = []

    def __enter__(self) -> "Bench":
        self.provider.start()
        self._all = [Launcher() for _ in range(SIDE_BY_SIDE)]
        for launcher in self._all:
            self._launchers.put(launcher)
        return self

    def __exit__(self, *_: object) -> None:
        for launcher in self._all:
            launcher.stop()
        self.provider.stop()

    def live(self, order: Order, environ: dict[str, str] | None = None) -> Ended:
        """Live one life in the next launcher that is free."""
        launcher = self._launchers.get()
        try:
            return launcher.live(order, environ)
        finally:
            self._launchers.put(launcher)

    def counts(self, tag: str) -> dict[str, int]:
        """How often each effect of one run happened, by the end of its name."""
        found = self.provider.counts()
        return {what.partition(":")[2]: n for what, n in found.items() if what.startswith(f"{tag}:")}

    def loop(self, program: Program, *, start: int = 1, step: int = 1, bug: str | None = None) -> list[Passage]:
        """Kill at `start`, `start + step`, … until a life ends without a crash; return all passages."""
        passages: list[Passage] = []
        number = start
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            while not passages or passages[-1].crashed_at is not None:
                batch = [number + step * k for k in range(SIDE_BY_SIDE)]
                passages += pool.map(lambda n: self.passage(program, {AT_POINT: str(n)}, n, bug=bug), batch)
                number = batch[-1] + step
        return passages

    def passage(
        self, program: Program, knob: dict[str, str], number: int = 0, *, bug: str | None = None
    ) -> Passage:
        """Run once with a knob, resume until the run has ended, resume once more, and check what can be checked."""
        tag = "-".join([program.job.partition(":")[0], program.job.partition(":")[2], bug or "x", *knob.values()])
        state_dir = self.folder / tag
        order = Order(
            str(state_dir), program.job, inputs={"url": self.provider.url, "tag": tag, **program.inputs},
            tuning=program.tuning,
        )  # fmt: skip
        first = self.live(order, {**knob, **planted(bug)})
        passage = self.recover(order, first, tag, number, bug=bug)
        if passage.counts != program.effects:
            raise Loss(f"asked for {program.effects}, and the provider saw: {passage}")
        shutil.rmtree(state_dir)
        return passage

    def recover(self, order: Order, first: Ended, tag: str, number: int = 0, *, bug: str | None = None) -> Passage:
        """Resume a run until it has ended, with a person where one is due, and once more after that."""
        ledger = LedgerFile(Path(order.state_dir))
        resume = Order(**{**vars(order), "do": "resume"})
        verdicts: list[str] = []
        last, lives, was_due = first, 1, False
        assert first.exit_code == 0 or first.crashed_at, f"the first life ended by itself: {first}"
        while last.exit_code != 0:
            assert lives < LIVES_AT_MOST, f"point {number} ({first.crashed_at}): still not ended: {last}"
            due = [call.tool_call_id for call in ledger.calls() if only_a_person_can_tell(call)]
            was_due = was_due or bool(due)
            last = self.live(resume, planted(bug))
            lives += 1
            waiting = last.says.get("waiting_for", [])
            assert [item["tool_call_id"] for item in waiting] == due, (
                f"point {number} ({first.crashed_at}): in doubt should be {due}: {last}"
            )
            if last.exit_code != 0:
                assert (last.says["status"], last.says["reason"], last.exit_code) == ("waiting", "in_doubt", 7)
                verdicts += answer_doubts(Path(order.state_dir), self.provider, waiting)
        self._ended_well(ledger, last, resume)
        return Passage(
            number, first.crashed_at, lives, was_due, tuple(verdicts), self.counts(tag),
            0 if first.crashed_at else first.points_passed,
        )  # fmt: skip

    def _ended_well(self, ledger: LedgerFile, last: Ended, resume: Order) -> None:
        assert last.says["status"] == "succeeded", last
        assert {call.status for call in ledger.calls()} == {"succeeded"}, ledger.calls()
        result = last.says["result"]
        ids = {line["what"]: line["id"] for line in self.provider.effects()}
        tag = str(resume.inputs["tag"])
        for name, effect_id in result.items():
            assert effect_id == ids[f"{tag}:{name}"], f"{name}: the program got {effect_id}: {result}"
        rows, effects = ledger.everything(), len(self.provider.effects())
        again = self.live(resume)
        assert (again.exit_code, again.says["result"]) == (0, result), again
        assert ledger.everything() == rows, "a resume of an ended run wrote to the ledger"
        del effects


def only_a_person_can_tell(call: Call) -> bool:
    """Whether a resume must leave this call in doubt: it was started, its outcome is not stored, and nothing can be asked."""
    return call.replay_policy == "ASK" and call.status == "running"


def kinds_of_points(passages: list[Passage]) -> Counter[str]:
    """How many crashes there were of each kind of point, call ids left out."""
    return Counter(re.sub(r" \(.*\)$", "", passage.crashed_at) for passage in passages if passage.crashed_at)
