"""Steps in their six states, phases and their checkpoints, and the critic that is asked where a phase ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Annotate, PhaseView, SpecError, Veto, on_phase_end
from tests.integration.engine_support import Crash, Outside, live, mailer, open_engine


def steps_of(folder: Path) -> list[tuple[str, str, str]]:
    with open_engine(folder) as engine:
        return [(step["name"], step["phase"], step["status"]) for step in engine.details("r1")["steps"]]


def checkpoints_of(folder: Path) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    from contextlib import closing

    import apsw

    with closing(apsw.Connection(str(folder / "state" / "runtime_state.db"))) as database:
        rows = database.execute(
            "SELECT checkpoint_type, state_snapshot_json, cursor_json, step_id FROM checkpoints ORDER BY checkpoint_no"
        ).fetchall()
        known = {row[0] for row in database.execute("SELECT step_id FROM run_steps")}
        pointed = database.execute("SELECT current_step_id, last_checkpoint_id FROM runs").fetchone()
        ids = {row[0] for row in database.execute("SELECT checkpoint_id FROM checkpoints")}
    assert pointed[0] in known and pointed[1] in ids, "the run's pointers name rows"
    assert {row[3] for row in rows} <= known
    return [(row[0], json.loads(row[1]), json.loads(row[2])) for row in rows]


# --- steps -----------------------------------------------------------------------------------------------------------


def test_a_step_is_ready_running_blocked_succeeded_failed_or_skipped(tmp_path: Path) -> None:
    """R019: each of the six is reached, and shown."""
    wire = mailer(Outside(), approval="always")
    seen: list[tuple[str, str, str]] = []

    def main(run: Any) -> None:
        run.outline("gather", ("write", "compose"), "send", "archive")
        with run.step("gather"):
            run.checkpoint()  # it waits for what was handed in before it
            seen.extend(steps_of(tmp_path))
        run.skip_step("write", reason="nothing was found")
        with pytest.raises(ZeroDivisionError), run.step("try", phase="compose"):
            raise ZeroDivisionError("by nothing")
        with run.step("send"):
            wire("a")

    assert live(tmp_path, main).reason == "approval"
    assert seen == [
        ("main", "run", "running"),
        ("gather", "gather", "running"),
        ("write", "compose", "ready"),
        ("send", "send", "ready"),
        ("archive", "archive", "ready"),
    ]
    assert [status for _, _, status in steps_of(tmp_path)] == [
        *("running", "succeeded", "skipped", "blocked", "ready", "failed"),
    ]
    with open_engine(tmp_path) as engine:
        shown = {step["name"]: step for step in engine.details("r1")["steps"]}
        assert (shown["try"]["error_code"], shown["try"]["error"]) == ("ZeroDivisionError", "by nothing")
        assert shown["write"]["error"] == "nothing was found"
        engine.approve(engine.inbox()[0][1].id)
    assert live(tmp_path, main).status == "succeeded"
    assert [status for _, _, status in steps_of(tmp_path)] == [
        *("succeeded", "succeeded", "skipped", "succeeded", "skipped", "failed"),
    ]


def test_step_indices_only_grow_over_lives_and_rows_are_kept(tmp_path: Path) -> None:
    def main(run: Any) -> None:
        run.outline("a", "b")
        if run.attempt == 2:
            with run.step("new"):
                pass
        for name in ("a", "b"):
            with run.step(name, phase="my own phase"):
                if name == "b" and run.attempt == 1:
                    raise Crash

    assert live(tmp_path, main).status == "failed"
    assert live(tmp_path, main, resume=True).status == "succeeded"
    with open_engine(tmp_path) as engine:
        rows = [(step["step_id"], step["name"], step["attempt"]) for step in engine.details("r1")["steps"]]
    assert rows == [("r1.s0", "main", 1), ("r1.s1", "a", 1), ("r1.s2", "b", 2), ("r1.s3", "new", 1)]


def test_announced_steps_use_no_budget_before_they_begin(tmp_path: Path) -> None:
    job = tmp_path / "j.job.yaml"
    (tmp_path / "announcing.py").write_text(
        "def main(run):\n    run.outline('a', 'b', 'c')\n    run.skip_step('b')\n"
        "    with run.step('a'):\n        pass\n    with run.step('c'):\n        pass\n"
    )
    job.write_text("name: j\nagent: {python: 'announcing:main'}\nbudgets: {max_steps: 2}\n")
    with open_engine(tmp_path) as engine:
        assert engine.run(job, run_id="r1").status == "succeeded"


# --- phases ----------------------------------------------------------------------------------------------------------


def test_a_change_of_phase_is_a_checkpoint_that_knows_what_is_to_come(tmp_path: Path) -> None:
    """R031, R032, R062: the keys of a checkpoint, and one where the phase of the outermost steps changes."""
    send = mailer(Outside())

    def main(run: Any) -> None:
        run.outline(("a", "plan"), ("b", "plan"), ("c", "crawl"), ("d", "render"))
        for name, phase in (("a", "plan"), ("b", "plan"), ("c", "crawl"), ("d", "render")):
            with run.step(name, phase=phase), run.step(f"inside {name}", phase="other"):
                send(name)

    assert live(tmp_path, main).status == "succeeded"
    written = checkpoints_of(tmp_path)
    kinds = [kind for kind, _, _ in written]
    assert kinds.count("phase_boundary") == 2
    boundary = next(item for item in written if item[0] == "phase_boundary")
    snapshot, cursor = boundary[1], boundary[2]
    assert {"phase", "step_index", "remaining_phases", "artifact_refs", "last_call_id"} <= set(snapshot)
    assert (snapshot["phase"], snapshot["remaining_phases"]) == ("plan", ["crawl", "render"])
    assert snapshot["last_call_id"] == cursor["last_tool_call_id"] == "r1.2"
    assert kinds.index("pre_side_effect") == 0, "before the first effect"


def test_a_life_that_only_meets_receipts_writes_no_phase_again(tmp_path: Path) -> None:
    def main(run: Any) -> None:
        for name in ("one", "two", "three"):
            with run.step(name):
                run.memo(name, lambda: 1)
        if run.attempt == 1:
            raise Crash

    assert live(tmp_path, main).status == "failed"
    before = len(checkpoints_of(tmp_path))
    assert live(tmp_path, main, resume=True).status == "succeeded"
    assert len(checkpoints_of(tmp_path)) == before


# --- the critic ------------------------------------------------------------------------------------------------------


def reviewed(main: Any, critic: Any) -> Any:
    """Give an agent a critic, as a module does that has both."""
    import types

    names = {"critic": on_phase_end(critic), "__name__": main.__module__}
    return types.FunctionType(main.__code__, names, main.__name__, main.__defaults__, main.__closure__)


def agent(form: str) -> Any:
    def main(run: Any) -> str:
        for name, phase in (("a", "plan"), ("b", "plan"), ("c", "send")):
            with run.step(name, phase=phase):
                run.memo(name, lambda: 1)
        return "done"

    async def amain(run: Any) -> str:
        for name, phase in (("a", "plan"), ("b", "plan"), ("c", "send")):
            async with run.step(name, phase=phase):
                await run.memo(name, lambda: 1)
        return "done"

    return main if form == "sync" else amain


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_critic_sees_each_finished_phase_once_and_its_words_are_shown(tmp_path: Path, form: str) -> None:
    views: list[PhaseView] = []

    def critic(view: PhaseView) -> Any:
        views.append(view)
        return Annotate("well planned") if view.phase == "plan" else None

    main = reviewed(agent(form), critic)
    assert live(tmp_path, main).result == "done"
    assert [(view.phase, view.occurrence, [step["name"] for step in view.steps]) for view in views] == [
        ("plan", 1, ["a", "b"]),
        ("send", 1, ["c"]),
    ]
    with pytest.raises((AttributeError, TypeError)):
        views[0].phase = "other"  # type: ignore[misc]
    with open_engine(tmp_path) as engine:
        assert engine.details("r1")["reviews"] == [
            {"phase": "plan", "verdict": "annotate", "text": "well planned"},
            {"phase": "send", "verdict": "pass", "text": ""},
        ]
        assert engine.outcome("r1").calls == {}, "a critic is no tool call"


@pytest.mark.parametrize("form", ["sync", "async"])
@pytest.mark.parametrize(("answer", "status"), [("go on", "succeeded"), ("stop", "failed")])
def test_a_veto_pauses_the_run_and_a_person_decides(tmp_path: Path, form: str, answer: str, status: str) -> None:
    asked: list[str] = []

    def critic(view: PhaseView) -> Any:
        asked.append(view.phase)
        return Veto("too thin") if view.phase == "plan" else None

    main = reviewed(agent(form), critic)
    first = live(tmp_path, main)
    assert (first.status, first.reason, asked) == ("waiting", "question", ["plan"])
    (item,) = first.waiting_for
    assert "too thin" in item.summary
    with open_engine(tmp_path) as engine:
        engine.answer(item.id, answer)
    done = live(tmp_path, main)
    assert done.status == status
    assert asked == (["plan", "send"] if answer == "go on" else ["plan"]), "its word is stored, and not asked for again"
    if answer == "stop":
        assert done.error_code == "PhaseVetoed"


@pytest.mark.parametrize("wrong", ["raises", "says nonsense"])
def test_a_critic_that_breaks_blocks_the_run_until_it_is_resumed(tmp_path: Path, wrong: str) -> None:
    broken = [True]

    def critic(view: PhaseView) -> Any:
        if broken and wrong == "raises":
            raise RuntimeError("lost its mind")
        return 42 if broken else None

    main = reviewed(agent("sync"), critic)
    first = live(tmp_path, main)
    assert (first.status, first.error_code) == ("failed", "CallFailed")
    assert live(tmp_path, main).status == "failed", "the same word in every life"
    assert [step[0] for step in steps_of(tmp_path)] == ["main", "a", "b"], "nothing of the next phase was begun"
    broken.clear()
    assert live(tmp_path, main, resume=True).status == "succeeded"


def test_phases_that_overlap_end_together(tmp_path: Path) -> None:
    views: list[tuple[str, int]] = []

    async def critic(view: PhaseView) -> str:
        views.append((view.phase, len(view.steps)))
        return "fine"

    async def main(run: Any) -> None:
        both, free = asyncio.Event(), asyncio.Event()

        async def part(name: str) -> None:
            async with run.step(name):
                if name == "two":
                    both.set()
                await both.wait()

        await asyncio.gather(part("one"), part("two"))
        free.set()
        async with run.step("three"):
            pass

    with open_engine(tmp_path) as engine:
        assert engine.run(_with_module(main, critic), run_id="r1").status == "succeeded"
    assert views == [("one", 2), ("three", 1)]


def _with_module(main: Any, critic: Any) -> Any:
    import types

    names = {"critic": on_phase_end(critic), "asyncio": asyncio, "__name__": main.__module__}
    return types.FunctionType(main.__code__, names, main.__name__, main.__defaults__, main.__closure__)


def test_a_job_names_its_critic_and_one_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "criticised.py").write_text(
        "from perdure import Veto\n"
        "def main(run):\n    with run.step('a'):\n        pass\n"
        "def judge(view):\n    return Veto('never')\n"
    )
    job = tmp_path / "j.job.yaml"
    job.write_text("name: j\nagent: {python: 'criticised:main'}\ncritic: 'criticised:judge'\n")
    with perdure.open(state_dir=tmp_path / "state") as engine:
        first = engine.run(job, run_id="r1")
        assert (first.reason, "never" in first.waiting_for[0].summary) == ("question", True)
        engine.answer(first.waiting_for[0].id, "go on")
        assert engine.resume("r1").status == "succeeded"
        job.write_text("name: j\nagent: {python: 'criticised:main'}\ncritic: 'criticised:nobody'\n")
        with pytest.raises(SpecError, match="nobody"):
            engine.run(job, run_id="r2")
        assert [row.run_id for row in engine.runs()] == ["r1"]


def test_the_log_tells_of_an_announced_step_what_it_is(tmp_path: Path) -> None:
    def main(run: Any) -> None:
        run.outline("gather", "print")
        run.skip_step("archive", reason="nothing to keep")
        with run.step("gather"):
            if run.attempt == 1:
                raise Crash

    live(tmp_path, main)
    live(tmp_path, main, resume=True)
    log = tmp_path / "state/workspaces/r1/run.log"
    said = [line.partition("  ")[2] for line in log.read_text("utf-8").splitlines() if "  step " in line]
    of_step = {number: [line for line in said if line.startswith(f"step r1.s{number} ")] for number in (1, 2, 3)}
    assert of_step[1] == [
        *("step r1.s1 gather ready", "step r1.s1 running", "step r1.s1 failed (Crash)"),
        *("step r1.s1 running", "step r1.s1 succeeded"),
    ]
    assert of_step[2] == ["step r1.s2 print ready", "step r1.s2 skipped"]
    assert of_step[3] == ["step r1.s3 archive skipped"]
    with open_engine(tmp_path) as engine:
        engine.export("r1")
    anew = log.read_text("utf-8")
    assert "step r1.s2 print running" not in anew
    assert "step r1.s3 archive running" not in anew
    assert "step r1.s3 archive skipped" in anew
