"""The engine's half of a life, under a virtual scheduler: every ledger write, send and reply is a point it may be cut at.

What a program does with it stands in `agents.py` and `loops.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import NamedTuple

from tests.model.rules import Ledger, Reader, did, effectful, matches, quarantine
from tests.model.words import Program, Request, World, arrive

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

    def __init__(self, branch: tuple[int, ...], work: Callable[["Task"], Steps], reader: Reader) -> None:
        self.branch = branch
        self.reader = reader
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


class Machine(ABC):
    """From entry to an end. `pick` chooses among the tasks that could go on, and is told at each point what stands."""

    def __init__(self, world: World, program: Program, broken: frozenset[str], fault: Fault | None) -> None:
        self.world, self.program, self.broken, self.fault = world, program, broken, fault
        self.ledger = Ledger(world, broken, program.no_duplicates)
        self.flying: dict[int, Request] = {}
        self.tasks: list[Task] = []
        self.patience: list[Task] = []
        self.labels: dict[str, int] = {}
        self.sends = 0
        self.faulted = False
        base = world.base if program.session or "base = checkpoint" in broken else frozenset()
        self.reader = self.ledger.open(Reader("FA", base if "session sees nothing" not in broken else ()))

    def now(self) -> World:
        """What would be left if the process died here."""
        return self.world._replace(rows=tuple(self.ledger.rows), released=self.ledger.released)

    def unmet(self) -> frozenset[int]:
        """Effects of the lineage that this life has not asked for."""
        return frozenset(n for n, row in enumerate(self.ledger.rows) if did(row) and self.ledger.unmet(n))

    # entry, end
    def run(self, pick: Callable[["Machine", int], int]) -> str:
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

    @abstractmethod
    def main(self, top: Task) -> Steps:
        """What the program does."""

    def spawn(self, branch: tuple[int, ...], work: Callable[[Task], Steps], reader: Reader | None = None) -> Task:
        task = Task(branch, work, reader or self.reader)
        self.tasks.append(task)
        return task

    def drain(self, pick: Callable[["Machine", int], int]) -> None:
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
        ledger, moved = self.ledger, False
        doubtful = any(r.status == "in_doubt" for r in ledger.rows)
        for n, row in enumerate(ledger.rows):
            if row.status == "prepared" and ledger.held[n] and not doubtful:
                reader = next(iter(ledger.held[n])).reader
                if ledger.guard(n, reader) == "park":
                    self.challenge(n, reader, "ask" if row.manner == "wait" else "refuse")
                    moved = moved or row.manner != "wait"
        if not self.program.waits:
            return moved
        before = self.now()
        self.world = answered(self.now(), ledger)
        return moved or self.now() != before

    # calls
    def challenge(self, number: int, reader: Reader, permit: str) -> None:
        """A question to a person, or an end of the call that its caller is told of."""
        self.ledger.question(number, reader, "awaiting_approval" if permit == "ask" else "challenged")
        if permit == "ask":
            self.world = self.world._replace(challenges=self.world.challenges + 1)

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
        permit = ledger.guard(number, task.reader)
        if permit == "go":
            ledger.change(number, status="running", tries=ledger.rows[number].tries + 1)
            self.spawn((), lambda _: self.dispatch(number))
            yield lambda: ledger.rows[number].status != "running" or "cancel not held back" in self.broken
        elif permit in ("ask", "refuse"):
            self.challenge(number, task.reader, permit)
            yield None
        else:
            yield (
                lambda: (
                    ledger.rows[number].status != "prepared"
                    or ledger.guard(number, task.reader) != permit
                    or task.cancelled
                )
            )

    def dispatch(self, number: int) -> Steps:
        """Send, and record what comes back. From the first byte on, a lost outcome is a doubt."""
        row = self.ledger.rows[number]
        spent = row.tries if "a new key for each attempt" in self.broken else 0
        key = (row.run, row.tool.name, row.args, row.scope, row.occurrence, spent)
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


def answered(world: World, ledger: Ledger) -> World:
    """A truthful person answers every open question, after looking at the providers."""
    for n, row in enumerate(ledger.rows):
        if row.status == "awaiting_approval" and row.shown:
            ledger.verdict(n)
        elif row.status == "in_doubt" and row.asked:
            world = quarantine(world)
            ledger.change(n, asked=False)
            if row.tool.gone:
                ledger.change(n, status="abandoned")
            else:
                ledger.evidence(n, matches(world, row), person=True)
    return world._replace(rows=tuple(ledger.rows), released=ledger.released)
