"""The sections of the soak: which schedules each one plays, and how a label names one of them again."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from tests.crash.loop import QUIET_NUMBERS, Program
from tests.crash.programs import changed
from tests.soak.drawing import drawn, person_of, plan_of
from tests.soak.lives import strace
from tests.soak.pieces import COMMANDS, NAMED, REFERENCE
from tests.soak.player import Played
from tests.soak.schedule import Kill, Piece, Plan, Schedule, Trouble

Play = Callable[[Schedule], Played]
Walk = Callable[[Play], None]
SYSCALLS = ("fdatasync", "pwrite64", "sendto", "recvfrom")
CLI_SHARE = 100  # a life by the command line costs some twenty forked ones


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is played: `schedules` random ones, and of each walk through points every `stride`-th."""

    seed: int
    schedules: int
    stride: int = 1


class Edge:
    """Where a walk through every `stride`-th number ends: after a few in a row at which nothing was killed."""

    def __init__(self, stride: int) -> None:
        self._missed = 0
        self._enough = math.ceil(QUIET_NUMBERS / stride)

    def note(self, killed: int) -> None:
        """A number was tried, and so many processes were killed there."""
        self._missed = 0 if killed else self._missed + 1

    @property
    def reached(self) -> bool:
        """Whether there is nothing more to kill."""
        return bool(self._missed >= self._enough)


# --- depth 2: the reference job, killed at p1, resumed and killed at p2 ------------------------------------------------

LIVES = ("second", "third")


def depth2_schedule(first: str, then: str, life: str = LIVES[0]) -> Schedule:
    kills = [Kill("point", int(first)), *([None] if life == LIVES[1] else []), Kill("point", int(then))]
    return Schedule(f"depth2:{first}:{then}:{life}", REFERENCE, tuple(Plan(kill) for kill in kills))


def depth2(limits: Limits) -> Iterator[Walk]:
    edge = Edge(limits.stride)

    def walk(first: int, play: Play) -> None:
        for life in LIVES:
            inner = Edge(limits.stride)
            for then in itertools.count(1, limits.stride):
                played = play(depth2_schedule(str(first), str(then), life))
                edge.note(played.killed_lives[:1] == [1])
                inner.note(played.kills - (played.killed_lives[:1] == [1]))
                if inner.reached or not played.killed_lives:
                    break
            if not played.questions:
                return  # a third life was only there to give the answer its own

    for first in itertools.count(1, limits.stride):
        if edge.reached:
            return
        yield partial(walk, first)


# --- random ------------------------------------------------------------------------------------------------------------


def random_schedule(seed: str, number: str) -> Schedule:
    return drawn(int(seed), int(number))


def randomly(limits: Limits) -> Iterator[Walk]:
    for number in range(1, limits.schedules + 1):
        yield once(random_schedule(str(limits.seed), str(number)))


def once(schedule: Schedule) -> Walk:
    """A walk of one step."""

    def walk(play: Play) -> None:
        play(schedule)

    return walk


# --- syscalls ----------------------------------------------------------------------------------------------------------

TRACED = {
    "reference": REFERENCE,
    "reference_async": next(piece for piece in NAMED if piece.program.job == "reference_async:main"),
    "ten": next(piece for piece in NAMED if piece.program.inputs.get("tool") == "probed_open"),
}


def strace_schedule(program: str, call: str, number: str, life: str = "first") -> Schedule:
    """Life 1 is killed at a syscall; or life 2 is, which settles what life 1 (killed behind a tool) has left."""
    kill = Kill("syscall", int(number), name=call)
    plans = [Plan(kill)] if life == "first" else [Plan(Kill("tool", name="probed")), Plan(kill)]
    return Schedule(f"strace:{program}:{call}:{number}:{life}", TRACED[program], tuple(plans))


def syscalls(limits: Limits) -> Iterator[Walk]:
    if strace() is None:
        return

    def walk(program: str, call: str, life: str, play: Play) -> None:
        edge, before = Edge(limits.stride), int(life != "first")
        for number in itertools.count(1, limits.stride):
            edge.note(play(strace_schedule(program, call, str(number), life)).kills - before)
            if edge.reached:
                return

    cases = [(program, "first") for program in TRACED] + [("reference", "second")]
    for (program, life), call in itertools.product(cases, SYSCALLS):
        yield partial(walk, program, call, life)


# --- the command line --------------------------------------------------------------------------------------------------


def cli_schedule(seed: str, number: str) -> Schedule:
    """A sync agent, begun, resumed and answered by the command `perdure` in interpreters of their own."""
    draw = random.Random(f"cli:{seed}:{number}")
    piece = draw.choice(COMMANDS)(draw)
    plans = [plan_of(draw, piece, life) for life in range(draw.randint(1, 3))]
    lives = tuple(replace(plan, kill=_slower(plan.kill), clock_ahead_seconds=0.0) for plan in plans)
    return Schedule(f"cli:{seed}:{number}", piece, lives, person_of(draw, piece), commands=True, answers="command")


def _slower(kill: Kill | None) -> Kill | None:
    """An interpreter starts later than a fork."""
    return replace(kill, number=250 + 12 * kill.number) if kill is not None and kill.how == "soon" else kill


def commands(limits: Limits) -> Iterator[Walk]:
    for number in range(1, max(1, limits.schedules // CLI_SHARE) + 1):
        yield once(cli_schedule(str(limits.seed), str(number)))


# --- answers -----------------------------------------------------------------------------------------------------------


def _tree(*nodes: object, questions: tuple[str, ...] = ()) -> Piece:
    program = Program("enduring:plain", {"n0": 1, "n1": 1}, {"tree": ["sequence", *nodes]}, questions=questions)
    return Piece(program, {"n0": "plain", "n1": "keyed"}, tolerant=True)


_THEN = ["send", "keyed_scoped", "n1"]
_LOST = _tree(["try", ["send", "asked_scoped", "n0"]], _THEN)
_SIGNED = _tree(["try", ["send", "signed", "n0"]], _THEN, questions=("approval",))
_CHANGED = Piece(changed("asked_open"), {"mail": "plain"})
_AFTER = Plan(Kill("tool", name="asked_open"))
ANSWERED: dict[str, tuple[Piece, tuple[Plan, ...], str]] = {
    "happened": (_LOST, (Plan(None, (Trouble("plain", "n0", {"drop_reply_after_effect": True}),)),), "honest"),
    "did_not_happen": (_LOST, (Plan(None, (Trouble("plain", "n0", {"reject_before_effect": 500}),)),), "honest"),
    "abandon": (_LOST, (Plan(None, (Trouble("plain", "n0", {"drop_reply_after_effect": True}),)),), "always_gives_up"),
    "approve": (_SIGNED, (Plan(),), "honest"),
    "deny": (_SIGNED, (Plan(),), "always_denies"),
    "same": (_CHANGED, (_AFTER,), "honest"),
}


def answer_schedule(case: str, number: str, how: str = "alone") -> Schedule:
    """The answer itself is cut off at one of its points and given again; with `resuming` it also goes on with the run."""
    piece, lives, person = ANSWERED[case]
    return Schedule(
        f"answers:{case}:{number}:{how}", piece, lives, person,
        answers="forked", answer_at_point=int(number), answer_resumes=how == "resuming",
    )  # fmt: skip


def answers(limits: Limits) -> Iterator[Walk]:
    def walk(case: str, how: str, play: Play) -> None:
        edge = Edge(limits.stride)
        for number in itertools.count(1, limits.stride):
            edge.note(play(answer_schedule(case, str(number), how)).answer_kills)
            if edge.reached:
                return

    for case, how in itertools.product(ANSWERED, ("alone", "resuming")):
        yield partial(walk, case, how)


@dataclass(frozen=True, slots=True)
class Section:
    """One way to hunt: its walks, the schedule that a label's parts name, and its share of a limited time."""

    shows: str
    walks: Callable[[Limits], Iterator[Walk]]
    schedule: Callable[..., Schedule]
    share: float = 0.1


SECTIONS = {
    "depth2": Section(
        "the reference job killed at every point, and every life after that at every point",
        depth2,
        depth2_schedule,
        0.25,
    ),
    "resolve": Section("answers on the command line, cut off at every point", answers, answer_schedule),
    "strace": Section("processes killed as they enter a chosen syscall", syscalls, strace_schedule),
    "cli": Section("lives and answers by the command `perdure` itself", commands, cli_schedule),
    "random": Section("random programs, kills, provider faults, rivals, verdicts", randomly, random_schedule, 1.0),
}
LABELS = {**{name: section.schedule for name, section in SECTIONS.items()}, "answers": answer_schedule}


def schedule_of(label: str) -> Schedule:
    """The schedule that a label (`random:SEED:K`, `depth2:P1:P2`, …, or `SEED:K`) names.

    Raises:
        ValueError: there is none of that name.
    """
    name, *parts = label.split(":")
    if name.isdigit():
        name, parts = "random", [name, *parts]
    if name not in LABELS:
        raise ValueError(f"{label}: a label begins with one of {', '.join(LABELS)}, or is SEED:K")
    try:
        return LABELS[name](*parts)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{label} names no schedule: {error}") from error
