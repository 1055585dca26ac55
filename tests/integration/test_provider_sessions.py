"""What a run knows of its provider's session, its prompt and how it was started (R097, R100, R108, R125)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure import tool
from perdure.model.run import RunStatus
from perdure.store.migrate import shipped_migrations
from tests.integration.engine_support import Crash, open_engine


def columns(folder: Path, run_id: str) -> dict[str, Any]:
    """Return the row of a run as another process sees it."""
    with apsw.Connection(str(folder / "state" / "runtime_state.db")) as ledger:
        cursor = ledger.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,))
        names = [item[0] for item in cursor.getdescription()]
        return dict(zip(names, next(iter(cursor)), strict=True))


def test_a_session_that_was_stored_is_found_by_the_next_life_and_by_whoever_looks(tmp_path: Path) -> None:
    seen: list[Any] = []

    def main(run: Any) -> str:
        seen.append(run.provider_session.get())
        if run.attempt == 1:
            run.provider_session.set("sess-1")
            seen.append(columns(tmp_path, "r1")["provider_session_id"])
            run.checkpoint()
            raise Crash("the provider goes away")
        return "done"

    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="r1")
        assert engine.resume("r1", main=main).status is RunStatus.SUCCEEDED
        shown = engine.details("r1")
    assert seen == [None, "sess-1", "sess-1"], "it is on stable storage before set returns"
    assert shown["provider_session_id"] == "sess-1"
    assert [item["provider_session_id"] for item in shown["checkpoints"]] == ["sess-1"]


def test_an_invalidated_session_is_none_in_every_later_life_and_a_fresh_one_takes_its_place(tmp_path: Path) -> None:
    """R099 for an agent of one's own: the provider refuses the id, the run goes on with a fresh session."""
    seen: list[Any] = []
    known = {"sess-1"}

    def main(run: Any) -> str:
        session = run.provider_session
        seen.append(session.get())
        if session.get() is not None and session.get() not in known:
            session.invalidate()
            seen.append(session.get())
        if session.get() is None:
            session.set(f"sess-{run.attempt}")
        if run.attempt < 3:
            raise Crash("again")
        return str(session.get())

    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="r1")
        known.clear()
        engine.resume("r1", main=main)
        known.add("sess-2")
        found = engine.resume("r1", main=main)
    assert seen == [None, "sess-1", None, "sess-2"]
    assert (found.status, found.result) == ("succeeded", "sess-2")


def test_a_run_without_any_session_is_resumed_as_well(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(side_effect_class="external", scope=["to"])
    def send(to: str) -> str:
        sent.append(to)
        return "sent"

    def main(run: Any) -> str:
        found = send("a")
        if run.attempt == 1:
            raise Crash("before the provider has named a session")
        return f"{found} {run.provider_session.get()}"

    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="r1")
        assert engine.resume("r1", main=main).result == "sent None"
    assert sent == ["a"]


def test_an_async_agent_stores_its_session_and_its_prompt(tmp_path: Path) -> None:
    async def main(run: Any) -> str | None:
        await run.provider_session.set("sess-1")
        await run.prompt_note("write the report", model="m-1")
        await run.provider_session.invalidate()
        await run.provider_session.set("sess-2")
        found: str | None = run.provider_session.get()
        return found

    with open_engine(tmp_path) as engine:
        assert asyncio.run(engine.arun(main, run_id="r1")).result == "sess-2"
        shown = engine.details("r1")
    assert (shown["provider_session_id"], shown["last_job_prompt"]) == ("sess-2", "write the report")


def test_a_fork_knows_the_session_of_its_checkpoint_and_begins_without_one_of_its_own(tmp_path: Path) -> None:
    def main(run: Any) -> list[Any]:
        session = run.provider_session
        found = [session.get(), session.forked_from]
        session.set(f"sess-{run.run_id}")
        run.checkpoint()
        session.set(f"later-{run.run_id}")
        return found

    with open_engine(tmp_path) as engine:
        assert engine.run(main, run_id="p").result == [None, None]
        assert engine.fork("p", main=main, new_run_id="f").result == [None, "sess-p"]
        shown = engine.details("f")
    assert shown["provider_session_forked_from"] == "sess-p"
    assert shown["provider_session_id"] == "later-f"


def test_another_model_or_prompt_than_in_the_life_before_is_told(tmp_path: Path) -> None:
    prompts = iter([("write", "m-1"), ("write", "m-1"), ("write briefly", "m-2")])

    def main(run: Any) -> str:
        text, model = next(prompts)
        run.prompt_note(text, model=model)
        run.prompt_note(f"a second prompt of life {run.attempt}")
        if run.attempt < 3:
            raise Crash("again")
        return "done"

    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="r1")
        engine.resume("r1", main=main)
        engine.resume("r1", main=main)
        lives = [life["changes"] for life in engine.details("r1")["lives"]]
        assert engine.details("r1")["last_job_prompt"] == "a second prompt of life 3"
    assert lives == [[], [], ["model: m-1 → m-2", "prompt: it changed"]]


def test_the_columns_that_say_how_a_run_was_started_are_filled(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("def main(run):\n    run.checkpoint()\n    return 1\n")
    job = tmp_path / "plain.job.yaml"
    job.write_text('name: plain\nobjective: Count to one\nagent: {python: "plain.py:main"}\n')
    with open_engine(tmp_path) as engine:
        engine.run(job, run_id="by-job")
        engine.run(f"{tmp_path / 'plain.py'}:main", run_id="by-function")
        with engine.scope("by-scope"):
            pass
        engine.fork("by-job", new_run_id="by-fork")
    found = {name: columns(tmp_path, name) for name in ("by-job", "by-function", "by-scope", "by-fork")}
    assert [row["run_mode"] for row in found.values()] == ["job", "function", "scope", "fork"]
    assert found["by-job"]["job_path"] == str(job)
    assert found["by-job"]["last_job_prompt"] == "Count to one"
    assert (found["by-fork"]["parent_run_id"], found["by-fork"]["forked_from"]) == ("by-job", "by-job.c1")
    assert found["by-fork"]["job_path"] == str(job) and found["by-fork"]["fork_effects"] == "simulate"


@pytest.mark.parametrize(
    ("agent", "path", "mode"),
    [
        ("plain:main", "/x/plain.job.yaml", "job"),
        ("plain.py:main", "/x/plain.py", "function"),
        ("run_scope", None, "scope"),
    ],
)
def test_a_run_of_an_older_ledger_gets_its_mode_by_the_migration(
    tmp_path: Path, agent: str, path: str | None, mode: str
) -> None:
    (forks,) = [step for step in shipped_migrations() if step.name == "forks"]
    with apsw.Connection(str(tmp_path / "old.db")) as ledger:
        for step in shipped_migrations():
            if step.number < forks.number:
                ledger.execute(step.sql)
        ledger.execute(
            "INSERT INTO runs (run_id, name, created_at, updated_at, status, entrypoint, run_spec_json, run_spec_hash,"
            " job_path, workspace) VALUES ('r1', 'n', 't', 't', 'queued', 'cli', ?, 'h', ?, '/w')",
            (json.dumps({"agent": agent}), path),
        )
        ledger.execute(forks.sql)
        assert list(ledger.execute("SELECT run_mode, parent_run_id, provider_session_id FROM runs")) == [
            (mode, None, None)
        ]
