"""The crash-point loop: kill a life at one numbered point, resume in new processes until the run has ended, count.

What is counted is the provider's own log. A call must wait in doubt exactly when its tool can be settled by nobody but a
person and the crash left its row started: after the commit of its intent and before that of its receipt.
"""

import itertools
import math
import os
import re
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from perdure.testing.provider.client import Provider
from tests.crash.child import Order
from tests.crash.support import AT_POINT, CRASHED, Call, Ended, Launcher, LedgerFile, LogReader, Person, planted

SIDE_BY_SIDE = 2
EVERY_POINT = "PERDURE_EVERY_POINT"
SOME = 1 if os.environ.get(EVERY_POINT) else 3
"""The step of the loops, and of their questions, that need not be put at every point each time: `python3 tasks.py prove crash`
puts them all."""
QUIET_NUMBERS = 6  # whether a receipt shares a commit is a matter of timing, so runs differ by a few points
Knob = dict[str, str]


@dataclass(frozen=True)
class Fault:
    """What the provider does wrong to the effect with this end of its name (`perdure.testing.provider.faults`)."""

    kind: str
    name: str
    how: dict[str, Any] = field(hash=False)


@dataclass(frozen=True)
class Program:
    """A job and the logical effects that one run of it is asked for, by the end of their names.

    `questions` are the kinds of question that may wait beside the calls that must be in doubt; `quarrels` lets a call
    be in doubt although its tool has a probe, because that probe cannot always tell. `failures` says how many calls may end as
    failed, `lives` how many lives the run may need at most.
    """

    job: str
    effects: dict[str, int]
    inputs: dict[str, Any] = field(default_factory=dict, hash=False)
    questions: tuple[str, ...] = ()
    quarrels: bool = False
    result_names_effects: bool = False
    faults: tuple[Fault, ...] = ()
    failures: tuple[int, ...] = (0,)
    lives: int = 8


@dataclass(frozen=True)
class Passage:
    """What became of one run that was killed at one point (or was not, where `crashed_at` is None)."""

    number: int
    crashed_at: str | None
    lives: int
    was_due: bool
    answers: tuple[str, ...]
    points_passed: int


class WrongCount(AssertionError):
    """The provider did not see exactly what the program asked for."""

    def __init__(self, asked_for: dict[str, int], seen: dict[str, int], passage: Passage) -> None:
        super().__init__(f"asked for {asked_for}, and the provider saw {seen}: {passage}")
        self.repeated = {name for name, count in seen.items() if count > asked_for.get(name, 0)}
        self.lost = {name for name, count in asked_for.items() if count > seen.get(name, 0)}


class WrongWait(AssertionError):
    """A run waited for a person without need, or did not wait where it must, or did not end."""


class Bench:
    """One provider and a few launchers, for many runs of one program after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.provider = Provider(folder / "provider.jsonl", fsync=False)
        self.log = LogReader(self.provider.log_path)
        self._free: SimpleQueue[Launcher] = SimpleQueue()
        self._launchers: list[Launcher] = []
        self._numbers = itertools.count(1)
        self._exits: list[int] = []

    def __enter__(self) -> "Bench":
        self.provider.start()
        self._launchers = [Launcher() for _ in range(SIDE_BY_SIDE)]
        for launcher in self._launchers:
            self._free.put(launcher)
        return self

    def __exit__(self, *_: object) -> None:
        for launcher in self._launchers:
            launcher.stop()
        self.provider.stop()

    def live(self, order: Order, environ: dict[str, str]) -> Ended:
        """Live one life in the next launcher that is free."""
        launcher = self._free.get()
        try:
            ended = launcher.live(order, environ)
        finally:
            self._free.put(launcher)
        self._exits.append(ended.exit_code)
        return ended

    def tally(self) -> dict[str, int]:
        """What was lived, killed and done here so far, for whoever adds it up."""
        effects = sum(1 for line in self.log.lines() if line["event"] == "effect")
        return {"lives": len(self._exits), "kills": self._exits.count(CRASHED), "effects": effects}

    def order(self, program: Program, tag: str) -> Order:
        """The order for the first life of a run whose effects carry `tag` in their names."""
        inputs = {"url": self.provider.url, "tag": tag, **program.inputs}
        return Order(str(self.folder / tag), program.job, inputs=inputs)

    def person(self, order: Order) -> Person:
        """Somebody who can answer for this run."""
        return Person(Path(order.state_dir), self.log)

    def counts(self, tag: str) -> dict[str, int]:
        """How often each effect of one run happened, by the end of its name."""
        whats = (line["what"] for line in self.log.lines() if line["event"] == "effect")
        return dict(Counter(what.partition(":")[2] for what in whats if what.startswith(f"{tag}:")))

    def loop(
        self,
        program: Program,
        *,
        before: tuple[Knob, ...] = (),
        bug: str | None = None,
        up_to: float = math.inf,
        every: int = 1,
    ) -> list[Passage]:
        """Kill at point 1, 2, 3, … until lives end without a crash (or `up_to` that point), and return all passages.

        `every` leaves points out: with 3, they are 1, 4, 7, ….
        `before` kills earlier lives of each run, so that the loop goes through the life that recovers.
        """
        passages: list[Passage] = []
        number = 1
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            while number <= up_to and (not passages or any(p.crashed_at for p in passages[-QUIET_NUMBERS:])):
                batch = range(number, number + SIDE_BY_SIDE * every, every)
                knobs = [(*before, {AT_POINT: str(n)}) for n in batch]
                passages += pool.map(lambda n, k: self.passage(program, k, n, bug=bug), batch, knobs)
                number += SIDE_BY_SIDE * every
        return passages

    def passage(self, program: Program, knobs: tuple[Knob, ...], number: int = 0, *, bug: str | None = None) -> Passage:
        """Run with the first knob, resume with the next ones, and recover; see `recover`."""
        killed = "-".join("-".join(knob.values()) for knob in knobs)
        marks = "-".join(str(value) for value in program.inputs.values())
        parts = (program.job.replace(":", "-"), marks, bug, killed, f"r{next(self._numbers)}")
        tag = "-".join(part for part in parts if part)
        for fault in program.faults:
            self.provider.control(fault.kind, what=f"{tag}:{fault.name}", **fault.how)
        return self.recover(program, self.order(program, tag), knobs, number, bug=bug)

    def recover(
        self, program: Program, order: Order, knobs: tuple[Knob, ...] = (), number: int = 0, *, bug: str | None = None
    ) -> Passage:
        """Live lives until the run has ended, with a person where one is due; then once more, and check everything.

        Raises:
            WrongCount, WrongWait: the promise was broken.
        """
        ledger, tag = LedgerFile(Path(order.state_dir)), str(order.inputs["tag"])
        passage = Passage(number, None, 0, False, (), 0)
        last: Ended | None = None
        while last is None or last.exit_code != 0:
            if passage.lives == program.lives:
                raise WrongWait(f"{passage}: still not ended: {last}")
            due = [call.tool_call_id for call in ledger.calls() if only_a_person_can_tell(call)]
            knob = knobs[passage.lives] if passage.lives < len(knobs) else {}
            last = self.live(order, {**knob, **planted(bug)})
            passage = _after_life(passage, last, knob, bool(due))
            order = replace(order, do="resume")
            if last.crashed_at is None and last.exit_code != 0:
                waiting = self._check_wait(program, passage, last, due, ledger)
                answers = self.person(order).answer(waiting)
                passage = replace(passage, answers=(*passage.answers, *answers))
        self._check_end(program, passage, last, order, tag)
        shutil.rmtree(order.state_dir)
        return passage

    def _check_wait(
        self, program: Program, passage: Passage, last: Ended, due: list[str], ledger: LedgerFile
    ) -> list[dict[str, Any]]:
        waiting: list[dict[str, Any]] = last.says.get("waiting_for", [])
        if last.says.get("status") != "waiting" or not waiting:
            raise WrongWait(f"{passage}: a life ended by itself: {last}")
        doubted = [item["tool_call_id"] for item in waiting if item["kind"] == "in_doubt"]
        now_due = [call for call in ledger.calls() if only_a_person_can_tell(call)]
        excused = {line["what"] for line in self.log.lines() if line["event"] == "dropped"}
        wrong = [call for call in now_due if call.tool_call_id not in due and call.what not in excused]
        if not program.quarrels and (wrong or set(doubted) != {call.tool_call_id for call in now_due}):
            raise WrongWait(f"{passage}: in doubt were {due}, now {wrong or doubted} are: {last}")
        if others := [item for item in waiting if item["kind"] not in ("in_doubt", *program.questions)]:
            raise WrongWait(f"{passage}: nobody should be asked {others}")
        expected = ("in_doubt", 7) if doubted else (waiting[0]["kind"], 6)
        assert (last.says["reason"], last.exit_code) == expected, last
        return waiting

    def _check_end(self, program: Program, passage: Passage, last: Ended, order: Order, tag: str) -> None:
        counts = self.counts(tag)
        if counts != program.effects:
            raise WrongCount(program.effects, counts, passage)
        ledger = LedgerFile(Path(order.state_dir))
        assert last.says["status"] == "succeeded", last
        ends = Counter(call.status for call in ledger.calls())
        assert ends.pop("failed", 0) in program.failures, ledger.calls()
        assert set(ends) <= {"succeeded", "cancelled"}, ledger.calls()
        if program.result_names_effects:
            ids = {line["what"]: line["id"] for line in self.log.lines() if line["event"] == "effect"}
            wrong = {name: got for name, got in last.says["result"].items() if ids[f"{tag}:{name}"] != got}
            assert not wrong, f"{passage}: the program got ids that the provider did not give: {wrong}"
        if SOME > 1 and passage.number and passage.number % 4 != 1:
            return  # that an ended run stays ended does not depend on where it was killed: a part of the walk asks it
        rows = ledger.everything()
        again = self.live(order, {})
        assert (again.exit_code, again.says.get("result")) == (0, last.says["result"]), again
        assert ledger.everything() == rows, "a resume of an ended run wrote to the ledger"
        assert self.counts(tag) == counts, "a resume of an ended run sent something"


def _after_life(passage: Passage, last: Ended, knob: Knob, due: bool) -> Passage:
    at = last.crashed_at if knob else passage.crashed_at
    passed = last.points_passed if AT_POINT in knob and last.crashed_at is None else passage.points_passed
    if AT_POINT not in knob and knob:
        assert last.crashed_at, f"the knob {knob} did not fire: {last}"
    return replace(
        passage, lives=passage.lives + 1, was_due=passage.was_due or due, crashed_at=at, points_passed=passed
    )


def only_a_person_can_tell(call: Call) -> bool:
    """Whether the next life must leave a call in doubt: started, its outcome not stored, and nothing can be asked."""
    return call.replay_policy == "ASK" and call.status in ("running", "in_doubt")


def kinds_of_points(passages: list[Passage]) -> Counter[str]:
    """How many crashes there were of each kind of point, call ids left out."""
    return Counter(re.sub(r" \(.*\)$", "", passage.crashed_at) for passage in passages if passage.crashed_at)
