"""Each error code on purpose: calls, runs and what is typed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import perdure
from perdure import PerdureError, ToolFailed, tool
from perdure.cli.main import main as command
from perdure.config.job import JobFile
from perdure.core.transitions import CallEvent, next_call_status
from perdure.demo.world.launch import World
from perdure.model.toolcall import CallStatus
from perdure.testing import FakeClock
from tests.integration import test_fingerprints as fingerprints
from tests.integration.engine_support import Crash, live, open_engine
from tests.integration.test_phases import Veto, reviewed
from tests.integration.trust_support import meddle, send

Scenario = Callable[[Path], Any]
SCENARIOS: dict[str, Scenario] = {}


def reaches(*found: str) -> Callable[[Scenario], Scenario]:
    """Say which codes a scenario is to end in."""

    def keep(scenario: Scenario) -> Scenario:
        for code in found:
            SCENARIOS[code] = scenario
        return scenario

    return keep


def typed(*words: str) -> Scenario:
    """Return a scenario in which somebody types a command in a folder with a program and a ledger."""
    return lambda folder: command(["-o", "json", "--state-dir", str(folder / "state"), *words])


def raising(main: Callable[[Any], Any], **options: Any) -> Scenario:
    """Return a scenario in which ``main`` meets the error, and hands it on."""

    def scenario(folder: Path) -> None:
        met: list[PerdureError] = []

        def outer(run: Any) -> None:
            try:
                main(run)
            except PerdureError as problem:
                met.append(problem)

        live(folder, outer, **options)
        raise met[0] if met else AssertionError("nothing was raised")

    return scenario


def apart(scenario: Scenario) -> Scenario:
    """Return a scenario with a ledger of its own, in which nothing has happened."""
    return lambda folder: scenario(folder / "apart")


@tool(name="refuses", side_effect_class="external")
def refuses() -> None:
    """Say for certain that nothing happened."""
    raise ToolFailed("no", retry=False)


def _of_one_name(run: Any) -> None:
    @tool(name="send", side_effect_class="external", scope=["to"])
    def another(to: str) -> str:
        return to

    run.call(send, to="ann")
    run.call(another, to="bob")


def _twice(run: Any) -> None:
    run.call(send, to="ann", dedupe_key="k")
    run.call(send, to="bob", dedupe_key="k")


SCENARIOS |= {
    "PERDURE-111": apart(raising(lambda run: refuses())),
    "PERDURE-115": apart(raising(_twice)),
    "PERDURE-120": lambda folder: send("ann"),
    "PERDURE-122": apart(raising(lambda run: run.call(send, to=object()))),
    "PERDURE-121": apart(raising(_of_one_name)),
    "PERDURE-131": typed("run", "nowhere.job.yaml"),
    "PERDURE-140": typed("runz"),
    "PERDURE-141": typed("runs", "show", "nothing"),
    "PERDURE-160": typed("resolve", "r1.1", "--did-not-happen"),
    "PERDURE-190": lambda folder: next_call_status(CallStatus.SUCCEEDED, CallEvent.DISPATCH),
    "PERDURE-401": lambda folder: perdure.open("postgresql://127.0.0.1/x"),
    "PERDURE-601": lambda folder: World(folder, (), 1.0).site_url,
}


@reaches("PERDURE-100")
def leaves_by_itself(folder: Path) -> int:
    """An agent that leaves the process."""
    (folder / "leaver.py").write_text("def main(run):\n    raise SystemExit(3)\n", "utf-8")
    return typed("run", str(folder / "leaver.py:main"))(folder)


@reaches("PERDURE-112")
def denied(folder: Path) -> None:
    """A call that a person denies, and that its program asks for again."""

    @tool(name="wire", side_effect_class="external", approval="always")
    def wire(cents: int) -> str:
        return "wired"

    live(folder / "d", lambda run: wire(1))
    with open_engine(folder / "d") as engine:
        engine.deny(engine.inbox()[0][1].id, reason="too much")
    raising(lambda run: wire(1), resume=True)(folder / "d")


@reaches("PERDURE-113")
def challenged(folder: Path) -> None:
    """Other words for the same effect in a later life, by a program that wants to be told."""

    with_words = mailer_of_words()

    def first(run: Any) -> None:
        run.call(with_words, to="ann", body="as it was")
        raise Crash

    live(folder / "c", first)

    def second(run: Any) -> None:
        run.call(with_words, to="ann", body="reworded", on_challenge="raise")

    def outer(run: Any) -> None:
        try:
            second(run)
        except perdure.PerdureError as problem:
            met.append(problem)

    met: list[PerdureError] = []
    live(folder / "c", outer, resume=True)
    raise met[0]


def mailer_of_words() -> Any:
    """Return a tool that sends in some words."""

    @tool(name="deliver", side_effect_class="external", scope=["to"])
    def changed(to: str, body: str = "") -> str:
        return to

    return changed


@reaches("PERDURE-114")
def abandoned(folder: Path) -> None:
    """A doubt that a person gives up."""
    with open_engine(folder) as engine:
        engine.resolve("r1.5", "abandon")
    raising(lambda run: send("lost"), resume=True)(folder)


@reaches("PERDURE-130")
def another_specification(folder: Path) -> None:
    """Other inputs under a known id."""
    with open_engine(folder) as engine:
        engine.run(lambda run: None, inputs={"a": 1}, run_id="r2")


@reaches("PERDURE-132")
def too_late(folder: Path) -> None:
    """A call after the deadline, which passes while the agent is at work."""
    clock = FakeClock("2026-11-22T10:00:00Z")
    met: list[PerdureError] = []

    def main(run: Any) -> None:
        clock.advance(days=2)
        try:
            send("ann")
        except PerdureError as problem:
            met.append(problem)

    with open_engine(folder / "late", clock=clock) as engine:
        job = JobFile("late", "python", "x:main", folder / "x.job.yaml", deadline="2026-11-23T10:00:00.000000Z")
        engine._open_job = lambda *_: main  # the agent is this function, the deadline comes with a job file
        engine.run(job, run_id="late")
    raise met[0]


@reaches("PERDURE-134")
def changed(folder: Path) -> None:
    """A job that stops on a change, and whose agent was changed."""
    (folder / "changing").mkdir()
    path = fingerprints.job(folder / "changing", "stop")
    sys.modules.pop("letters", None)
    with open_engine(folder / "changing") as engine:
        fingerprints.start(engine, path)
        fingerprints.change_the_agent(folder / "changing")
        try:
            engine.resume("r1")
        finally:
            sys.modules.pop("letters", None)


@reaches("PERDURE-150")
def owned(folder: Path) -> None:
    """A second life beside a living one."""

    def main(run: Any) -> None:
        with open_engine(folder) as other:
            try:
                other.resume("twin", main=main)
            except PerdureError as problem:
                met.append(problem)

    met: list[PerdureError] = []
    with open_engine(folder) as engine:
        engine.run(main, run_id="twin")
    raise met[0]


@reaches("PERDURE-151")
def taken_over(folder: Path) -> None:
    """Another owner takes the run in the middle of a life."""

    def main(run: Any) -> None:
        meddle(folder, "UPDATE runs SET lease_fence = lease_fence + 1 WHERE run_id = 'taken'")
        send("ann")

    with open_engine(folder) as engine:
        engine.run(main, run_id="taken")


@reaches("PERDURE-152")
def cancelled(folder: Path) -> None:
    """A cancelled run is resumed."""
    with open_engine(folder) as engine:
        engine.cancel("r1")
        engine.resume("r1", main=lambda run: None)


@reaches("PERDURE-153")
def vetoed(folder: Path) -> None:
    """A critic that holds a run back, and a person who agrees."""
    met: list[PerdureError] = []
    error = PerdureError

    def agent(run: Any) -> None:
        try:
            with run.step("plan", phase="plan"):
                pass
            with run.step("send", phase="send"):
                pass
        except error as problem:  # a name of this module is none of an agent's that was given a critic
            met.append(problem)

    main = reviewed(agent, lambda view: Veto("too thin"))
    assert live(folder / "veto", main).reason == "question"
    with open_engine(folder / "veto") as engine:
        engine.answer(engine.inbox()[0][1].id, "stop")
    live(folder / "veto", main)
    raise met[0]
