"""One life of a program under a virtual scheduler: every ledger write, send and reply is a point it may be cut at."""

from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple

from tests.model.rules import MEMO, OVER, Context, did, effectful, matches, quarantine
from tests.model.words import Call, Fail, Gather, Memo, Only, Program, Request, Step, Timeout, Try, World, arrive

Wait = Callable[[], bool] | None
Steps = Generator[Wait, None, None]


class CallFailed(Exception):
    """A definite failure, raised to the caller; `row` is None for the program's own error."""

    def __init__(self, row: int | None) -> None:
        super().__init__(row)
        self.row = row


class TimedOut(Exception):
    """The caller lost patience before anything was started."""


class Fault(NamedTuple):
    """What happens to the n-th request of a life: the request is lost, the reply is, or it arrives late."""

    send: int
    how: str


class Task:
    """A branch of the program, or work of the engine."""

    def __init__(self, branch: tuple[int, ...], work: Callable[["Task"], Steps]) -> None:
        self.branch = branch
        self.steps = work(self)
        self.until: Wait = None
        self.error: Exception | None = None
        self.over = self.cancelled = False
        self.children = 0

    def ready(self) -> bool:
        return not self.over and (self.until is None or self.until())

    def step(self) -> None:
        """Go on to the next point."""
        try:
            self.until = next(self.steps)
        except StopIteration:
            self.over = True
        except (CallFailed, TimedOut) as error:
            self.over, self.error = True, error


class Life:
    """From entry to an end. `pick` chooses among the tasks that could go on, and is told at each point what stands."""

    def __init__(self, world: World, program: Program, broken: frozenset[str], fault: Fault | None) -> None:
        self.world, self.program, self.broken, self.fault = world, program, broken, fault
        self.ledger = Context(world, broken, program.no_duplicates)
        self.flying: dict[int, Request] = {}
        self.tasks: list[Task] = []
        self.patience: list[Task] = []
        self.labels: dict[str, int] = {}
        self.sends = 0
        self.faulted = False
        base = world.base if program.session or "base = checkpoint" in broken else frozenset()
        self.ledger.seen |= base if "session sees nothing" not in broken else frozenset()

    def now(self) -> World:
        """What would be left if the process died here."""
        return self.world._replace(rows=tuple(self.ledger.rows), released=self.ledger.released)

    def unmet(self) -> frozenset[int]:
        """Effects of the lineage that this life has not asked for."""
        return frozenset(n for n, row in enumerate(self.ledger.rows) if did(row) and self.ledger.unmet(n))

    # entry, end
    def run(self, pick: Callable[["Life", int], int]) -> str:
        """Live this life: succeeded, failed or waiting."""
        self.spawn((), lambda _: self.takeover())
        self.drain(pick)
        if any(effectful(r) and r.status in ("in_doubt", "running") for r in self.ledger.rows):
            return "waiting"
        main = self.spawn((), self.main)
        self.drain(pick)
        if not main.over or any(r.status == "in_doubt" for r in self.ledger.rows):
            return "waiting"
        for n, row in enumerate(self.ledger.rows):  # R5
            if row.status in ("prepared", "awaiting_approval"):
                self.ledger.change(n, status="cancelled")
        if main.error is None:
            return "succeeded"
        self.world = self.world._replace(ended_by=getattr(main.error, "row", None))
        return "failed"

    def spawn(self, branch: tuple[int, ...], work: Callable[[Task], Steps]) -> Task:
        task = Task(branch, work)
        self.tasks.append(task)
        return task

    def drain(self, pick: Callable[["Life", int], int]) -> None:
        """Go on until all is done, or all is parked: then the run is quiet."""
        current = None
        while True:
            ready = [task for task in self.tasks if task.ready()]
            if not ready and self.ask():
                continue
            options: list[Task | None] = [*sorted(ready, key=lambda task: task is not current)]
            options += [None] * len(self.patience)
            if not options:
                pick(self, 1)
                return
            choice = pick(self, len(options) + (not ready))  # parked: patience runs out, or the life ends first
            if choice == len(options):
                return
            chosen = options[choice]
            if chosen is None:
                impatient = self.patience.pop(choice - len(ready))
                impatient.cancelled = True
            else:
                chosen.step()
                current = chosen

    def ask(self) -> bool:
        """Quiet: write the open challenges down; answer what can be answered if somebody waits. Was anything moved?"""
        ledger = self.ledger
        doubtful = any(r.status == "in_doubt" for r in ledger.rows)
        for n, row in enumerate(ledger.rows):
            if row.status == "prepared" and ledger.held[n] and not doubtful and ledger.guard(n) == "park":
                self.challenge(n)
        if not self.program.waits:
            return False
        before = self.now()
        self.world = answered(self.now(), ledger)
        return self.now() != before

    # a caller
    def main(self, top: Task) -> Steps:
        begin = self.world.begin if self.program.session else 0
        for index, step in enumerate(self.program.steps):
            if index < begin:
                continue
            yield from self.body(top, None, (step,))
            if self.program.session or "base = checkpoint" in self.broken:
                self.world = self.world._replace(begin=index + 1, base=frozenset(self.ledger.seen))
                yield None

    def body(self, task: Task, parent: int | None, steps: tuple[Step, ...]) -> Steps:
        """One step after another, in one branch."""
        for step in steps:
            match step:
                case Call():
                    yield from self.call(task, parent, step)
                case Memo():
                    yield from self.memo(task, parent, step)
                case Gather():
                    yield from self.gather(task, parent, step)
                case Try() | Timeout():
                    yield from self.attempt(task, parent, step)
                case Only(lives, inner):
                    if self.world.life in lives:
                        yield from self.body(task, parent, inner)
                case Fail():
                    raise CallFailed(None)

    def gather(self, task: Task, parent: int | None, step: Gather) -> Steps:
        children = []
        for branch in step.branches:
            work = partial(self.body, parent=parent, steps=branch)
            children.append(self.spawn((*task.branch, task.children), work))
            task.children += 1
        yield lambda: all(child.over for child in children)
        for child in children:
            if child.error is not None:
                raise child.error

    def attempt(self, task: Task, parent: int | None, step: Try | Timeout) -> Steps:
        """A body and what is done instead of it."""
        expected = CallFailed if isinstance(step, Try) else TimedOut
        if isinstance(step, Timeout):
            self.patience.append(task)
        try:
            if isinstance(step, Timeout):
                yield None
            yield from self.body(task, parent, step.body)
        except expected:
            pass
        else:
            return
        finally:
            if isinstance(step, Timeout):
                self.patience = [waiting for waiting in self.patience if waiting is not task]
                task.cancelled = False
        yield from self.body(task, parent, step.fallback)

    def call(self, task: Task, parent: int | None, step: Call) -> Steps:
        """Find the row, bring it to its end, hand its receipt over."""
        if task.cancelled:
            raise TimedOut
        args = f"{step.args}@{self.world.life}" if step.varies else step.args
        cited = self.labels.get(step.cites) if step.cites else None
        number = self.ledger.find(step, args, task.branch, parent, cited)
        self.ledger.meet(number, task)
        self.retry_failed(number)
        yield None
        delivered = False
        try:
            while self.ledger.rows[number].status not in OVER:
                yield from self.forward(task, number)
            delivered = True
        finally:
            self.ledger.release(number, task, delivered)
        if step.label:
            self.labels[step.label] = number
        if self.ledger.rows[number].status == "failed":
            raise CallFailed(number)

    def retry_failed(self, number: int) -> None:
        """The mutant that takes a definite failure for leave to try again."""
        if "failed re-tried" in self.broken and self.ledger.rows[number].status == "failed":
            self.ledger.change(number, status="prepared")

    def forward(self, task: Task, number: int) -> Steps:
        """One move of a row that is not over, as its caller sees it."""
        ledger, status = self.ledger, self.ledger.rows[number].status
        if task.cancelled and status in ("prepared", "awaiting_approval"):
            raise TimedOut
        if task.cancelled and "cancel not held back" in self.broken:
            raise TimedOut
        if status != "prepared":
            impatient = status == "awaiting_approval" or "cancel not held back" in self.broken
            yield lambda: ledger.rows[number].status != status or (impatient and task.cancelled)
            return
        permit = ledger.guard(number)
        if permit == "go":
            ledger.change(number, status="running", tries=ledger.rows[number].tries + 1)
            self.spawn((), lambda _: self.dispatch(number))
            yield lambda: ledger.rows[number].status != "running" or "cancel not held back" in self.broken
        elif permit == "ask":
            self.challenge(number)
            yield None
        elif permit == "refuse":
            ledger.change(number, status="challenged")
            raise CallFailed(number)
        else:
            yield lambda: ledger.rows[number].status != "prepared" or ledger.guard(number) != permit or task.cancelled

    def challenge(self, number: int) -> None:
        self.ledger.question(number)
        self.world = self.world._replace(challenges=self.world.challenges + 1)

    def memo(self, task: Task, parent: int | None, step: Memo) -> Steps:
        """A call whose work is a body of the program's own."""
        if task.cancelled:
            raise TimedOut
        ledger = self.ledger
        number = ledger.find(Call(MEMO, step.name), step.name, task.branch, parent, None)
        ledger.meet(number, task)
        yield None
        delivered = False
        try:
            if ledger.rows[number].status not in OVER:
                ledger.change(number, status="running")
                yield None
                yield from self.compute(task, number, step)
            delivered = True
        finally:
            ledger.release(number, task, delivered)
        if ledger.rows[number].status == "failed":
            raise CallFailed(number)

    def compute(self, task: Task, number: int, step: Memo) -> Steps:
        try:
            yield from self.body(task, number, step.body)
        except CallFailed as error:
            self.ledger.change(number, status="failed", cause=error.row)
        except TimedOut:
            self.ledger.change(number, status="prepared")
            raise
        else:
            self.ledger.change(number, status="succeeded")
        self.ledger.let_go(number)
        yield None

    # the engine
    def dispatch(self, number: int) -> Steps:
        """Send, and record what comes back. From the first byte on, a lost outcome is a doubt."""
        row = self.ledger.rows[number]
        spent = row.tries if "a new key for each attempt" in self.broken else 0
        key = (row.tool.name, row.args, row.occurrence, spent)
        wanted = bool(self.ledger.held[number]) or row.tries > 0
        request = Request(row.tool, row.args, key, row.intent, wanted)
        fault = self.fault.how if self.fault is not None and self.fault.send == self.sends else None
        self.sends += 1
        self.faulted = self.faulted or fault is not None
        if row.tool.kind == "read":
            self.ledger.change(number, status="succeeded")
            return
        self.flying[number] = request
        yield None
        del self.flying[number]
        ref = None
        if fault == "late":
            self.world = self.world._replace(late=(*self.world.late, request))
        elif fault != "lost":
            log, ref = arrive(self.world.log, request)
            self.world = self.world._replace(log=log)
        yield None
        if fault is not None:
            self.ledger.change(number, status="in_doubt")
            yield None
            yield from self.settle(number)
            return
        self.ledger.change(number, status="failed" if ref is None else "succeeded", ref=ref)

    def takeover(self) -> Steps:
        """R3: what was started is settled before main is entered, and nothing else is touched."""
        for n, row in enumerate(self.ledger.rows):
            if row.status == "running":
                self.ledger.change(n, status="in_doubt" if effectful(row) else "prepared")
        yield None
        for n, row in enumerate(self.ledger.rows):
            if row.status == "in_doubt" and effectful(row):
                yield from self.settle(n)
                yield None
            elif row.status == "prepared" and effectful(row) and "settle sends prepared" in self.broken:
                self.ledger.change(n, status="running")
                yield from self.dispatch(n)
                yield None

    def settle(self, number: int) -> Steps:
        """The ladder: a probe, the same key again, a person."""
        row = self.ledger.rows[number]
        if row.tool.kind in ("keyed", "create"):
            self.ledger.change(number, status="running", tries=row.tries + 1)
            yield from self.dispatch(number)
            return
        if row.tool.kind == "probed":
            alone = "probe beside a running twin" in self.broken
            yield lambda: alone or not any(r.tool == row.tool and r.status == "running" for r in self.ledger.rows)
            if "quarantine skipped" not in self.broken:
                self.world = quarantine(self.world)
            answer = self.ledger.evidence(number, matches(self.world, row), person=False)
            if answer != "unknown":
                return
        self.ledger.change(number, asked=True)


def answered(world: World, ledger: Context) -> World:
    """A truthful person answers every open question, after looking at the providers."""
    for n, row in enumerate(ledger.rows):
        if row.status == "awaiting_approval" and row.shown:
            ledger.verdict(n)
        elif row.status == "in_doubt" and row.asked:
            world = quarantine(world)
            ledger.evidence(n, matches(world, row), person=True)
            ledger.change(n, asked=False)
    return world._replace(rows=tuple(ledger.rows), released=ledger.released)
