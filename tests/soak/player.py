"""Plays one schedule in real processes, from its first life to its end, and says what the provider saw."""

from __future__ import annotations

import itertools
import random
import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from perdure.testing.provider.effect_log import Line
from tests.crash.child import Order
from tests.crash.support import AFTER_TOOL, AT_POINT, CRASHED, Ended
from tests.soak.desk import CommandLine, Library
from tests.soak.hand import FROM_OUTSIDE, TRAPS, Hand
from tests.soak.lives import Started, in_command, to_a_syscall
from tests.soak.person import Person, rows_of
from tests.soak.schedule import Kill, Plan, Schedule, Trouble
from tests.soak.stand import Broken, Stand, World

MORE_LIVES = 30
KILLED = -9
HUNG = -14
NO_STORE = 4
LEASE_HELD = 5
KNOBS = {"point": AT_POINT, "tool": AFTER_TOOL}
_NUMBERS = itertools.count(1)


@dataclass
class Played:
    """What became of one schedule; `problems` is empty where the promise was kept."""

    label: str
    lives: int = 0
    killed_lives: list[int] = field(default_factory=list)  # of each life, whether it was killed
    kills: int = 0
    effects: int = 0
    receipts: int = 0
    duplicates: int = 0
    losses: int = 0
    stuck: int = 0
    answer_kills: int = 0
    questions: int = 0
    needless: int = 0
    refused: int = 0
    blocked: int = 0
    usurped: int = 0
    problems: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)

    def fail(self, what: str, count: int = 1, **more: Any) -> None:
        """Add to a figure and say why."""
        setattr(self, what, getattr(self, what) + count)
        self.problems.append(f"{what}: {', '.join(f'{key}={value}' for key, value in more.items())}")


class Player:
    """Plays one schedule on a stand."""

    def __init__(self, stand: Stand, schedule: Schedule, environ: dict[str, str] | None = None) -> None:
        stand.begin()
        self.stand, self.schedule = stand, schedule
        self.piece, self.program = schedule.piece, schedule.piece.program
        self.world: World = stand.world(lags=self.piece.lags)
        self.tag = f"s{next(_NUMBERS)}"
        inputs = {"url": self.world.provider.url, "tag": self.tag, **self.program.inputs}
        self.state_dir = stand.folder / self.tag
        self.order = Order(str(self.state_dir), self.program.job, inputs=inputs)
        self.played = Played(schedule.label)
        self._environ = environ or {}
        self._clock_was_set = any(plan.clock_ahead_seconds for plan in schedule.lives)
        self.desk = self._desk_of(schedule)
        self.person = Person(
            self.world, self.tag, self.state_dir, self.desk, self.program.effects, schedule.person,
            random.Random(schedule.label),
            self._clock_was_set,
        )  # fmt: skip
        self._kept: list[Line] = []
        self._due: set[str] = set()
        self._began = False

    def _desk_of(self, schedule: Schedule) -> Library | CommandLine:
        if schedule.answers == "library":
            return Library(self.state_dir)
        forked, resumes = schedule.answers == "forked", schedule.answer_resumes
        return CommandLine(self.stand, self.state_dir, schedule.answer_at_point, resumes, forked, self._environ)

    def play(self) -> Played:
        """Live all lives that were planned and then as many as the run needs; the folder is kept after a failure."""
        try:
            self._arm_program()
            last = self._lives()
            if last is not None:
                self._judge(last)
            self._count_answers()
        except (Broken, AssertionError, OSError, sqlite3.Error) as problem:
            self.played.fail("stuck", why=f"{type(problem).__name__}: {problem}")
        finally:
            self._clean()
        return self.played

    def _count_answers(self) -> None:
        if isinstance(self.desk, CommandLine):
            self.played.answer_kills = self.desk.kills
            self.played.kills += self.desk.kills

    def _clean(self) -> None:
        self.world.provider.release()
        self.world.provider.clear_faults()
        self.world.provider.set(search_miss_next=0)
        if not self.played.problems:
            shutil.rmtree(self.state_dir, ignore_errors=True)

    def _arm_program(self) -> None:
        for fault in self.program.faults:
            self.world.provider.control(fault.kind, what=f"{self.tag}:{fault.name}", **fault.how)

    def _lives(self) -> Ended | None:
        plans = [*self.schedule.lives, *(Plan() for _ in range(MORE_LIVES))]
        for number, plan in enumerate(plans):
            self._arrange(plan)
            ended = self._live(plan)
            self._tell(number, plan, ended)
            if self._is_end(ended, plan):
                return ended
            if self.played.stuck:
                return None
        self.played.fail("stuck", why=f"not ended after {len(plans)} lives", last=ended)
        return None

    # --- one life ------------------------------------------------------------------------------------------------

    def _arrange(self, plan: Plan) -> None:
        """What the provider will do wrong in this life, and what it forgot before it."""
        for trouble in plan.troubles:
            self._trouble(trouble)
        if plan.kill is not None and plan.kill.how in TRAPS:
            how = {"hold_before_effect": True} if plan.kill.how == "held_before" else {"hold": True}
            self.world.provider.control(plan.kill.kind, what=f"{self.tag}:{plan.kill.name}", **how)
        rows = rows_of(self.state_dir)
        self._due = {row.tool_call_id for row in rows if row.status in ("running", "in_doubt")}
        if plan.forget_keys and not self._clock_was_set:  # whoever sets the clock back cannot tell that a key is old
            for row in rows:
                if row.tool_name == "keyed_briefly" and row.key_expires_at:
                    _sleep_until(row.key_expires_at)
                    self.world.provider.forget_keys(row.key)

    def _trouble(self, trouble: Trouble) -> None:
        if trouble.kind == "miss":
            self.world.provider.set(search_miss_next=1)
        else:
            what = {} if trouble.name is None else {"what": f"{self.tag}:{trouble.name}"}
            self.world.provider.control(trouble.kind, **what, **trouble.how)

    def _live(self, plan: Plan) -> Ended:
        order = replace(self.order, do="resume" if self._began else "run", clock_ahead_seconds=plan.clock_ahead_seconds)
        environ = dict(self._environ)
        if plan.kill is not None and plan.kill.how in KNOBS:
            environ[KNOBS[plan.kill.how]] = plan.kill.name or str(plan.kill.number)
        outside = plan.kill is not None and plan.kill.how in FROM_OUTSIDE
        hand = Hand(self.world, self.tag, plan.kill, self._kept, lambda: self._beside(order, plan))
        needs_hand = (
            outside or self._kept or any(p.kill is not None and p.kill.how in TRAPS for p in self.schedule.lives)
        )
        started: Started | None = hand.watch if needs_hand else None
        if plan.rival:
            with ThreadPoolExecutor(1) as pool:
                rival = pool.submit(self._one_life, order, self._environ, None, "second")
                ended = self._one_life(order, environ, started, "first", plan.kill)
                self._tell_of_rival(rival.result())
        else:
            ended = self._one_life(order, environ, started, "first", plan.kill)
        self._kept = hand.over()
        self._began = True
        self.played.lives += 1 + plan.rival
        killed = int(ended.exit_code in (KILLED, CRASHED))
        self.played.kills += killed
        self.played.killed_lives.append(killed)
        return ended

    def _one_life(
        self, order: Order, environ: dict[str, str], started: Started | None, who: str, kill: Kill | None = None
    ) -> Ended:
        if kill is not None and kill.how == "syscall":
            return to_a_syscall(kill, order, environ)
        if self.schedule.commands:
            return in_command(order, environ, started)
        return self.stand.live(order, environ, started, who)

    def _beside(self, order: Order, plan: Plan) -> None:
        """A resume while the owner stands still must be refused; one that kills it first goes on."""
        resume = replace(order, do="resume")
        refused = self._one_life(resume, self._environ, None, "second")
        self.played.lives += 1
        # One that stands still in the middle of a transaction locks the ledger: a resume waits for it until it gives up.
        self.played.blocked += refused.exit_code in (HUNG, NO_STORE)
        if refused.exit_code not in (LEASE_HELD, HUNG, NO_STORE):
            self.played.fail("usurped", ended=refused)
        if plan.kill is not None and not plan.kill.wakes:
            took = self._one_life(replace(order, do="take_over"), self._environ, None, "second")
            self.played.lives += 1
            self._tell_of_rival(took)

    def _tell_of_rival(self, ended: Ended) -> None:
        self.played.story.append(f"  beside it: {_short(ended)}")
        if ended.exit_code == NO_STORE and "locked" in ended.stdout:
            self.played.blocked += 1  # safe: it has sent nothing
        elif ended.exit_code not in (0, 1, LEASE_HELD, 6, 7):
            self.played.fail("stuck", why="a rival ended strangely", ended=ended)

    def _tell(self, number: int, plan: Plan, ended: Ended) -> None:
        troubles = [f"{t.kind}:{t.name}:{t.how}" for t in plan.troubles]
        said = [word for word, is_so in (("rival", plan.rival), ("keys forgotten", plan.forget_keys)) if is_so]
        said += [f"clock {plan.clock_ahead_seconds:+.0f} s"] if plan.clock_ahead_seconds else []
        how = " ".join([_killed_by(plan.kill), *said, *troubles])
        self.played.story.append(f"life {number + 1}: {how} -> {_short(ended)}")

    def _is_end(self, ended: Ended, plan: Plan) -> bool:
        """Whether the run has ended; a waiting one gets its answers, and what should not be is a failure."""
        if ended.exit_code in (KILLED, CRASHED) or (ended.exit_code == HUNG and self.played.blocked):
            return False
        if ended.exit_code == LEASE_HELD:
            self.played.refused += 1
            if not (plan.rival or self._is_stopped(plan)):
                self.played.fail("stuck", why="refused although no other process lives", ended=ended)
            return False
        if ended.exit_code in (0, 1) and ended.stdout and ended.says.get("status") in ("succeeded", "failed"):
            return True
        waiting = ended.says.get("waiting_for", []) if ended.stdout else []
        if ended.exit_code not in (6, 7) or not waiting:
            self.played.fail("stuck", why="it ended by itself and waits for nobody", ended=ended)
            return False
        self._ask(waiting, plan)
        return False

    @staticmethod
    def _is_stopped(plan: Plan) -> bool:
        return plan.kill is not None and plan.kill.how == "stop"

    # --- questions and the end -------------------------------------------------------------------------------------

    def _ask(self, waiting: list[dict[str, Any]], plan: Plan) -> None:
        rows = {row.tool_call_id: row for row in rows_of(self.state_dir)}
        self.played.questions += len(waiting)
        for item in waiting:
            if not self._is_needed(item, rows[item["tool_call_id"]], plan):
                self.played.needless += 1
                self.played.story.append(f"  needless: {item['kind']} {rows[item['tool_call_id']]}")
        hand = Hand(self.world, self.tag, None, self._kept, lambda: None)
        hand.attend()  # an answer may go on with the run
        try:
            answers = self.person.answer(waiting)
        finally:
            self._kept = hand.over()
        self.played.story.append(f"  {[item['kind'] for item in waiting]}: {answers}")

    def _is_needed(self, item: dict[str, Any], row: Any, plan: Plan) -> bool:
        if item["kind"] != "in_doubt":
            return item["kind"] in self.program.questions
        plans = self.schedule.lives
        if self.piece.outlives or self._clock_was_set:
            return True
        troubled = {t.name for p in plans for t in p.troubles} | {f.name for f in self.program.faults}
        if row.name in troubled or None in troubled:
            return True
        if row.replay_policy == "ASK":
            return row.tool_call_id in self._due or plan.rival or self._is_stopped(plan)
        late = {p.kill.name for p in plans if p.kill is not None and p.kill.late}
        return row.tool_name == "keyed_briefly" or row.name in late

    def _judge(self, last: Ended) -> None:
        """Count at the provider, when everything has landed and one more resume has been lived."""
        self.world.let_land(self.tag)
        if last.exit_code == 0:
            again = self._one_life(replace(self.order, do="resume"), self._environ, None, "first")
            if again.exit_code != 0 or again.says.get("result") != last.says["result"]:
                self.played.fail("stuck", why="the stored outcome is another one", ended=again)
        elif not self.piece.tolerant:
            self.played.fail("stuck", why="the run failed", ended=last)
        counts = self.world.counts(self.tag)
        rows = rows_of(self.state_dir)
        self.played.effects = sum(counts.values())
        self.played.receipts = sum(1 for row in rows if row.status == "succeeded")
        self._compare(counts, last)

    def _compare(self, counts: dict[str, int], last: Ended) -> None:
        most = {name: n - list(self.person.denied.values()).count(name) for name, n in self.program.effects.items()}
        least = {name: n - list(self.person.given_up.values()).count(name) for name, n in most.items()}
        twice = {name: n for name, n in counts.items() if n > most.get(name, 0)}
        lost = {name: counts.get(name, 0) for name, n in least.items() if counts.get(name, 0) < n}
        if twice:
            extra = sum(n - most.get(name, 0) for name, n in twice.items())
            self.played.fail("duplicates", extra, asked_for=most, seen=counts)
        if lost:
            self.played.fail("losses", sum(least[name] - n for name, n in lost.items()), asked_for=least, seen=counts)
        if (twice or lost) and last.exit_code:
            self.played.problems.append(f"the run failed: {last}")
        if last.exit_code and not (twice or lost):
            self.played.fail("stuck", why="the run failed", ended=last)


def _killed_by(kill: Kill | None) -> str:
    if kill is None:
        return "to its end"
    more = [str(kill.number or ""), kill.name, "late" if kill.late else "", "wakes" if kill.wakes else ""]
    return " ".join(["killed at", kill.how, *(word for word in more if word)])


def _short(ended: Ended) -> str:
    if ended.exit_code in (KILLED, CRASHED):
        return f"killed {ended.crashed_at or ''}"
    says = ended.says if ended.stdout.startswith("{") else {}
    return f"exit {ended.exit_code} {says.get('status', says.get('error', ''))} {says.get('reason') or ''}"


def _sleep_until(moment: str) -> None:
    """Wait until a stored wall time has passed: only then may the provider forget a key."""
    left = datetime.fromisoformat(moment).timestamp() - time.time()
    if left > 0:
        threading.Event().wait(min(left, 1.0) + 0.005)
