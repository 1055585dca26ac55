"""Every schedule of every life, cut at every point: what a program can end in, and in how many ways."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from tests.model.loops import Life
from tests.model.machine import Fault, answered
from tests.model.rules import TURN, Ledger, quarantine
from tests.model.words import Agent, Call, Loop, Only, Program, World

LIVES = 12  # more than any program here needs


class End(NamedTuple):
    """What is left when nothing moves any more."""

    status: str
    effects: tuple[str, ...]  # at the providers: tool and arguments
    meant: tuple[str, ...]  # the same, as the person who wrote the program would say it
    challenges: int
    unmet: tuple[str, ...]
    uncalled: tuple[str, ...]  # sent though nobody asked for it any more
    rows: tuple[str, ...]
    told: int  # challenges that were a call's answer
    cited: int  # receipts that a repeat went out for


class Cut(NamedTuple):
    """The process died here."""

    world: World


class Closed(NamedTuple):
    """The life came to its own end."""

    world: World
    status: str
    unmet: frozenset[int]


class Walk:
    """Walks the tree of choices of one life, depth first, by living it again and again.

    `switches` bounds how often a branch that could go on is made to wait for another; a bound of two has found
    every fault that no bound at all has found here.
    """

    def __init__(self, switches: int) -> None:
        self.switches = switches
        self.path: list[list[int]] = []  # the choice taken and how many there were
        self.sends = 0
        self.shared = 0  # points that earlier lives of this walk have already shown

    def lives(
        self, world: World, program: Program, broken: frozenset[str], fault: Fault | None
    ) -> Iterator[Cut | Closed]:
        while True:
            self.depth = 0
            self.left = self.switches
            self.cuts: list[World] = []
            life = Life(world, program, broken, fault)
            status = life.run(self.pick)
            self.sends = max(self.sends, life.sends)
            if fault is None or life.faulted:
                yield from (Cut(cut) for cut in self.cuts)
                yield Closed(life.now(), status, life.unmet())
            while self.path and self.path[-1][0] + 1 == self.path[-1][1]:
                self.path.pop()
            if not self.path:
                return
            self.path[-1][0] += 1
            self.shared = len(self.path)

    def pick(self, life: Life, many: int) -> int:
        if self.depth >= self.shared and (life.fault is None or life.faulted):
            self.cuts.extend(left_behind(life))
        if many > 1 and self.left == 0:
            many = 1
        if self.depth == len(self.path):
            self.path.append([0, many])
        choice = self.path[self.depth][0]
        self.depth += 1
        if choice:
            self.left -= 1
        return choice


def left_behind(life: Life) -> Iterator[World]:
    """The worlds a crash at this point may leave: each request under way is lost, or arrives later."""
    world = life.now()
    for fates in product((False, True), repeat=len(life.flying)):
        late = tuple(request for request, fate in zip(life.flying.values(), fates, strict=True) if fate)
        for remembered in life.transcripts():
            yield world._replace(late=(*world.late, *late), **remembered)


class Explorer:
    """All ends of a program under so many crashes and faults; equal worlds are walked once and counted as often as met."""

    def __init__(self, program: Program, broken: frozenset[str] = frozenset(), switches: int = 2, faults: bool = True):
        self.program, self.broken, self.switches, self.faults = program, broken, switches, faults
        self.known: dict[tuple[World, int], Counter[End]] = {}
        self.lives = 0
        self.horizon = max(1, *mentioned(program.steps, 4 if program.waits else 2), 1)

    def ends(self, crashes: int) -> Counter[End]:
        """Every end, with the number of schedules that lead to it."""
        return self.after(World(), crashes, 0)

    def after(self, world: World, crashes: int, depth: int) -> Counter[End]:
        key = (world, crashes)
        if key not in self.known:
            self.known[key] = Counter({judged(world, "stuck", frozenset()): 1})  # coming back here is no progress
            if depth < LIVES:
                self.known[key] = self.enter(world._replace(life=min(world.life + 1, self.horizon)), crashes, depth)
        return self.known[key]

    def enter(self, world: World, crashes: int, depth: int) -> Counter[End]:
        found: Counter[End] = Counter()
        faults: list[Fault | None] = [None]
        for fault in faults:  # grows when the undisturbed life has shown how much it sends
            left, walk = crashes - (fault is not None), Walk(self.switches)
            for outcome in walk.lives(world, self.program, self.broken, fault):
                if isinstance(outcome, Cut):
                    if left:
                        found.update(self.after(outcome.world, left - 1, depth + 1))
                    continue
                self.lives += 1
                found.update(self.closed(outcome, left, depth))
            if fault is None and crashes and self.faults:
                faults += [Fault(send, how) for send in range(walk.sends) for how in ("lost", "mute", "late")]
        return found

    def closed(self, outcome: Closed, left: int, depth: int) -> Counter[End]:
        """After a life's own end: a person answers, or resumes what failed, or all is over."""
        world = outcome.world
        if outcome.status == "waiting":
            ledger = Ledger(world, self.broken)
            world = answered(world, ledger)
        elif outcome.status == "failed" and world.resumes < self.program.resumes:
            world = reopened(world, "a denied call is reopened" in self.broken)
        else:
            return Counter({judged(world, outcome.status, outcome.unmet): 1})
        return self.after(world, left, depth + 1)


def reopened(world: World, broken: bool) -> World:
    """R4: an explicit resume tries the call again that ended the run, down to its first cause."""
    rows, number = list(world.rows), world.ended_by
    while number is not None:
        again = rows[number].status == "failed" and (not rows[number].tool.denied or broken)
        rows[number], number = (
            rows[number]._replace(status="prepared" if again else rows[number].status),
            rows[number].cause,
        )
    return world._replace(rows=tuple(rows), ended_by=None, resumes=world.resumes + 1)


def judged(world: World, status: str, unmet: frozenset[int]) -> End:
    """What an outsider sees at the end."""
    log = [request for request in quarantine(world).log if request.accepted]
    return End(
        status,
        tuple(sorted(f"{r.tool.name} {r.args}" for r in log)),
        tuple(sorted(f"{r.tool.name} {r.intent}" for r in log)),
        world.challenges,
        tuple(sorted(f"{world.rows[n].tool.name} {world.rows[n].args}" for n in unmet)),
        tuple(sorted(f"{r.tool.name} {r.args}" for r in log if not r.wanted)),
        tuple(sorted(f"{row.tool.name} {row.args} {row.status}" for row in world.rows if row.tool != TURN)),
        sum(row.status == "challenged" for row in world.rows),
        len({row.cited for row in world.rows if row.cited is not None and row.status == "succeeded"}),
    )


def mentioned(steps: tuple[object, ...], texts: int) -> Iterator[int]:
    """The lives a program distinguishes; one that varies has so many texts, and keeps to the last."""
    for step in steps:
        if isinstance(step, Only):
            yield max(step.lives) + 1
        if isinstance(step, Call | Agent) and step.varies:
            yield texts
        if isinstance(step, Loop) and (step.forgets or step.kind != "ML"):
            yield 3
        if isinstance(step, tuple):
            yield from mentioned(tuple(step), texts)
