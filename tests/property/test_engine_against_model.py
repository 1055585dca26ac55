"""Small programs, killed at numbered points of the real engine, end as the model says they may.

A life is a process of its own that stops dead, the provider is a file beside the ledger, and questions are answered
truthfully. `PERDURE_TEST_PROGRAMS=N` tries N programs, drawn anew each time; without it they are always the same.
"""

import base64
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.model.engine_lives import Order, Provider, ledger
from tests.model.engine_models import intent
from tests.model.explore import End, Explorer
from tests.model.model_programs import MODEL_CASES, goals
from tests.model.programs import BANK, CARD, CASES, MAIL, PAY, POST, Case, some_steps, written
from tests.model.words import Agent, Call, Gather, Loop, Memo, Program, Step, Timeout, Try

MORE = int(os.environ.get("PERDURE_TEST_PROGRAMS", "0"))
MEMORY = Path("/dev/shm")
LIVES = 14
CRASHED = 137


class Ended(NamedTuple):
    """What can be compared with the model's `End`."""

    status: str
    effects: tuple[str, ...]
    rows: tuple[str, ...]
    unmet: int
    asked: bool
    cited: int = 0  # receipts that a model's repeat went out for; not compared
    told: int = 0  # challenges that were a call's answer; not compared

    def outside(self) -> tuple[str, tuple[str, ...], bool]:
        """What the world saw of it."""
        return self.status, meant(self.effects), self.asked


def meant(effects: tuple[str, ...]) -> tuple[str, ...]:
    """The effects as their author would call them."""
    return tuple(sorted(f"{tool} {intent(text)}" for tool, _, text in (effect.partition(" ") for effect in effects)))


class Lives:
    """The server that lives the engine's lives."""

    def __init__(self) -> None:
        self.busy = False
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.model.engine_lives"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def order(self, order: Order) -> dict[str, object] | None:
        """The result, or None if the life was cut off."""
        if self.busy:  # a test ran out of time; its life may never end
            self.process.kill()
            self.close()
            self.start()
        assert self.process.stdin is not None and self.process.stdout is not None
        self.busy = True
        self.process.stdin.write(base64.b64encode(pickle.dumps(order)).decode() + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        self.busy = False
        if code == CRASHED:
            return None
        assert code == 0, f"a life ended with code {code}"
        result: dict[str, object] = json.loads(Path(order.folder, "result.json").read_text())
        assert "error" not in result, result["error"]
        return result

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    server = Lives()
    yield server
    server.close()


def ended(lives: Lives, program: Program, sync: bool, seed: int, crashes: tuple[int, ...]) -> tuple[Ended, int]:
    """Live until nothing moves any more; how it ended, and how many crashes there were."""
    with tempfile.TemporaryDirectory(
        prefix="perdure-model-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None
    ) as folder:
        happened, asked, reopen, resumes = 0, False, False, program.resumes
        for life in range(1, LIVES + 1):
            crash_at = crashes[life - 1] if life <= len(crashes) else None
            result = lives.order(Order("live", folder, program, sync, seed, life, crash_at, reopen))
            if result is None:
                happened += 1
                continue
            reopen = False
            if result["status"] == "waiting":
                said = lives.order(Order("answer", folder, program, sync, seed))
                asked = asked or bool(said and said["challenges"])
            elif result["status"] == "failed" and resumes:
                reopen, resumes = True, resumes - 1
            else:
                rows = tuple(sorted(f"{row['tool']} {row['args']} {row['status']}" for row in ledger(folder)))
                done = [f"{entry['tool']} {entry['args']}" for entry in Provider(folder).entries() if entry["accepted"]]
                cited = {row["cited"] for row in ledger(folder) if row["cited"] and row["status"] == "succeeded"}
                told, unmet = int(str(result["challenged"])), int(str(result["unmet"]))
                found = Ended(str(result["status"]), tuple(sorted(done)), rows, unmet, asked, len(cited), told)
                return found, happened
        raise AssertionError(f"stuck after {LIVES} lives")


@cache
def explorer(program: Program, switches: int) -> Explorer:
    return Explorer(program, switches=switches, faults=False)


def allowed(program: Program, crashes: int, switches: int) -> set[Ended]:
    def seen(end: End) -> Ended:
        rows = tuple(row.replace(" challenged", " failed") for row in end.rows)
        return Ended(end.status, end.effects, rows, len(end.unmet), end.challenges > 0)

    return {seen(end) for end in explorer(program, switches).ends(crashes)}


def check(lives: Lives, program: Program, sync: bool, seed: int, crashes: tuple[int, ...]) -> int:
    """The engine's end is one that the model knows; only if it seems not to be are more schedules looked at.

    Returns how many of the crash points were reached.
    """
    found, happened = ended(lives, program, sync, seed, crashes)
    found = found._replace(cited=0, told=0)
    if any(found in allowed(program, happened, switches) for switches in (1, 2, 3)):
        return happened
    near = "\n".join(str(end) for end in sorted(allowed(program, happened, 3)))
    raise AssertionError(
        f"{written(program.steps)}\nsync={sync} seed={seed} crashes={crashes}, {happened} happened\n{found}\nthe model:\n{near}"
    )


def parallel(steps: tuple[object, ...]) -> bool:
    """Whether it takes an event loop."""
    return any(
        isinstance(step, Gather | Timeout | Loop) or (isinstance(step, tuple) and parallel(step)) for step in steps
    )


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Deterministic ones; some with a card that is declined once, or with texts that change."""
    chance = draw(st.randoms(use_true_random=False))
    steps: tuple[Step, ...] = some_steps(random.Random(chance.getrandbits(32)), calls=draw(st.integers(1, 3)))
    extra = draw(st.sampled_from(["", "", "declined", "caught", "varies"]))
    if extra == "declined":
        return Program((*steps, Call(CARD, "1")), resumes=2)
    if extra == "caught":
        return Program((Try((Call(CARD, "1"),), (Call(BANK, "1"),)), *steps))
    if extra == "varies":
        return Program((Call(MAIL, "t", varies=True), Call(MAIL, "u", varies=True)))
    return Program(steps)


def check_model(lives: Lives, case: Case, sync: bool, seed: int, crashes: tuple[int, ...]) -> int:
    """A program with a model in it keeps its promise, and what the world saw of it is what the rules allow.

    Rows are not compared: two machines that number their receipts differently may tell a model of them in another order.
    """
    found, happened = ended(lives, case.program, sync, seed, crashes)
    seen = End(
        found.status,
        found.effects,
        meant(found.effects),
        int(found.asked),
        (f"{found.unmet} effects",) if found.unmet else (),
        (),
        found.rows,
        found.told,
        found.cited,
    )
    about = f"{written(case.program.steps)}\nsync={sync} seed={seed} crashes={crashes}, {happened} happened\n{found}"
    assert case.broken_by(seen) is None, f"{case.broken_by(seen)}\n{about}"
    for switches in (1, 2):
        ends = explorer(case.program, switches).ends(happened)
        if found.outside() in {(end.status, end.meant, end.challenges > 0) for end in ends}:
            return happened
    raise AssertionError(f"the model knows no such end\n{about}")


POINTS = st.integers(1, 90)


@pytest.mark.timeout(300 + 5 * MORE)
@settings(
    max_examples=MORE or 30,
    deadline=None,
    database=None,
    derandomize=not MORE,
    phases=[Phase.generate, Phase.shrink] if MORE else [Phase.generate],  # a smaller one costs minutes of lives
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    program=programs(), sync=st.booleans(), seed=st.integers(0, 999), crashes=st.lists(POINTS, min_size=1, max_size=2)
)
def test_random_programs_end_as_the_model_says(
    lives: Lives, program: Program, sync: bool, seed: int, crashes: list[int]
) -> None:
    together = parallel(program.steps)
    check(lives, program, sync and not together, seed, tuple(crashes[: 1 if together else 2]))


def beyond_the_engine(step: object) -> bool:
    """Whether a program needs what cannot be said to the engine in a few lines."""
    if isinstance(step, Loop):
        keyed = any(goal.key or goal.tool.denied for goal in step.goals)
        return keyed or step.kind != "ML" or step.forgets not in (None, "all") or step.reader == "forward"
    return isinstance(step, Agent) or (isinstance(step, tuple) and any(map(beyond_the_engine, step)))


@st.composite
def loops(draw: st.DrawFn) -> Case:
    """A model with a few goals; it understands what it is told, so each is met exactly as often as it is meant."""
    tools, scoped = st.sampled_from([MAIL, MAIL, POST, PAY]), draw(st.booleans())
    varies, scopes = draw(st.booleans()), {"a": "you", "b": draw(st.sampled_from(["you", "me"])), "c": "them"}

    def call(text: str, varies: bool = False) -> Call:
        return Call(draw(tools), text, scopes[text] if scoped else None, varies)

    wanted = [call(draw(st.sampled_from("aab")), varies) for _ in range(draw(st.integers(1, 3)))]
    loop = Loop(tuple(wanted), batch=draw(st.integers(1, 3)), forgets=draw(st.sampled_from([None, "all"])))
    loop = loop._replace(compacts=draw(st.sampled_from([0, 0, 1, 2])) if loop.forgets is None else 0)
    effects = [f"{goal.tool.name} {goal.args}" for goal in wanted]
    shape = "alone" if loop.forgets else draw(st.sampled_from(["alone", "memo", "beside", "before"]))
    if shape == "memo":
        return goals((Memo("m", (loop,)),), ", ".join(effects))
    if shape == "alone":
        return goals(loop, ", ".join(effects))
    other = call("c")
    steps: tuple[Step, ...] = (Gather(((loop,), (other,))),) if shape == "beside" else (loop, other)
    return goals(steps, ", ".join([*effects, f"{other.tool.name} c"]))


@pytest.mark.timeout(300 + 5 * MORE)
@settings(
    max_examples=MORE or 16,
    deadline=None,
    database=None,
    derandomize=not MORE,
    phases=[Phase.generate, Phase.shrink] if MORE else [Phase.generate],  # a smaller one costs minutes of lives
    suppress_health_check=[HealthCheck.too_slow],
)
@given(case=loops(), sync=st.booleans(), seed=st.integers(0, 999), crashes=st.lists(POINTS, min_size=1, max_size=2))
def test_random_loops_of_a_model_do_exactly_what_they_aim_at(
    lives: Lives, case: Case, sync: bool, seed: int, crashes: list[int]
) -> None:
    together = any(isinstance(step, Gather) for step in case.program.steps)
    check_model(lives, case, sync and not together, seed, tuple(crashes))


# Not here: what takes a declaration beside the program (a job's constraints, a restored session, a person who waits).
NAMED = [
    name
    for name, case in CASES.items()
    if not (case.program.session or case.program.waits or case.program.no_duplicates is not None)
    and not name.startswith(("create", "deliberate", "stale", "one receipt", "a repeat", "forbidden"))
]
# Not here: loops that are not ours, subagents, and what a history may lack that a program would have to keep itself.
LOOPS = [
    name
    for name, case in MODEL_CASES.items()
    if name.startswith("loop") and not any(map(beyond_the_engine, case.program.steps))
]


@pytest.mark.timeout(300 + 5 * MORE)
@pytest.mark.parametrize("name", NAMED)
def test_named_programs_end_as_the_model_says(lives: Lives, name: str) -> None:
    program = CASES[name].program
    stride = 1 if MORE else 11
    points = range(1 + NAMED.index(name) % stride, 70, stride)
    cut_off = [check(lives, program, not parallel(program.steps), seed=point, crashes=(point,)) for point in points]
    assert sum(cut_off) > len(points) // 4, "hardly a life was cut off: the points are not where the work is"


@pytest.mark.timeout(300 + 5 * MORE)
@pytest.mark.parametrize("name", LOOPS)
def test_named_loops_of_a_model_end_as_the_rules_say(lives: Lives, name: str) -> None:
    stride = 1 if MORE else 17
    points = range(1 + LOOPS.index(name) % stride, 90, stride)
    cut_off = [
        check_model(lives, MODEL_CASES[name], point % 2 == 0 and not name.startswith("loop beside"), point, (point,))
        for point in points
    ]
    assert sum(cut_off) > len(points) // 4, "hardly a life was cut off: the points are not where the work is"
