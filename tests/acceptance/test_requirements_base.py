"""The base of it all: one shared layer under every way in, old tools and old ledgers that go on working."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import perdure
from perdure import CallContext, Engine, tool
from perdure.ports.clock import SystemClock
from perdure.store.migrate import migrate, shipped_migrations
from perdure.store.open import open_store
from perdure.store.sql_store import SqlStore
from perdure.store.sqlite.connection import SqliteConnection
from tests.acceptance.cli_support import REPORT, TO_BOSS, Desk, Said, ended, environment
from tests.docs.markdown import ROOT
from tests.integration.engine_support import Outside, open_engine
from tests.integration.store_support import NOW, everything, new_call, seed

CRASH = {"PERDURE_TEST_CRASH_AFTER_TOOL": "send_mail"}


def by_command(desk: Desk, **options: Any) -> Said:
    """Run the report by the command line."""
    return desk.type("run", "report.py:main", *TO_BOSS, "--run-id", "report-2026-w47", **options)


def by_script(desk: Desk, **options: Any) -> Said:
    """Run the report by its own Python program, which calls the library."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import report"],
        cwd=desk.folder,
        env=environment(options.get("env", {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return ended(process)


def shape(desk: Desk) -> dict[str, list[Any]]:
    """Return what stands in the ledger, without what differs by the hour and the process."""
    rows = desk.rows()
    return {
        "calls": [(row[1], row[6], row[18], row[19]) for row in rows["tool_calls"]],
        "questions": [(row[3], row[4], row[5]) for row in rows.get("approvals", [])],
        "evidence": [(row[1], row[2], row[6]) for row in rows.get("evidence", [])],
        "lives": [(row[1], row[6]) for row in rows["run_attempts"]],
    }


def test_a_killed_mail_has_one_story_whether_it_was_sent_by_the_command_line_or_from_python(tmp_path: Path) -> None:
    stories = []
    for name, go in (("command", by_command), ("script", by_script)):
        desk = Desk(tmp_path / name)
        desk.write("report.py", REPORT)
        assert go(desk, env=CRASH).code == 137
        again = go(desk)
        assert "did it happen?" in again.err
        assert desk.mails() == [["boss@example.org", "Report", "about SQLite"]]
        stories.append(shape(desk))
    assert stories[0] == stories[1]
    assert stories[0]["calls"][1][2] == "in_doubt"


def test_a_tool_that_was_written_before_is_called_as_it_is(tmp_path: Path) -> None:
    outside = Outside()

    def old_tool(to: str, subject: str = "hello") -> str:
        outside.sent.append(f"{to}:{subject}")
        return "sent"

    wrapped = perdure.wrap(old_tool, side_effect_class="external", scope=["to"])
    with open_engine(tmp_path) as engine:
        outcome = engine.run(lambda run: wrapped("ann"), run_id="r1")
    assert (outcome.result, outside.sent) == ("sent", ["ann:hello"])
    assert (old_tool("bob"), wrapped.plain("cid", subject="x")) == ("sent", "sent")
    assert outside.sent[1:] == ["bob:hello", "cid:x"]


def test_ids_reach_a_tool_as_an_argument_and_are_no_part_of_its_key(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str, int]] = []

    @tool(name="send", side_effect_class="external", scope=["to"])
    def knows(to: str, *, call: CallContext) -> str:
        seen.append((call.run_id, call.step_id, call.tool_call_id, call.attempt))
        return "sent"

    @tool(name="send", side_effect_class="external", scope=["to"])
    def knows_nothing(to: str) -> str:
        return "sent"

    keys: list[list[str]] = []
    for name, send in (("knows", knows), ("old", knows_nothing)):
        path = tmp_path / name
        path.mkdir()
        with open_engine(path) as engine:
            engine._around = replace(engine._around, ledger_id="one and the same")
            engine.run(_steps_of(send), run_id="r1")
            keys.append([call["idempotency_key"] for call in engine.calls("r1")])
    assert seen == [("r1", "r1.s1", "r1.1", 1), ("r1", "r1.s2", "r1.2", 1)]
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == 2, "the second equal call of a run is another effect"


def _steps_of(send: Any) -> Any:
    def main(run: Any) -> None:
        for name in ("first", "second"):
            with run.step(name):
                send("ann")

    return main


def test_another_way_in_drives_the_same_runner_with_nothing_of_the_core_changed(tmp_path: Path) -> None:
    """R068: a chat server that answers messages, written against the public library only."""
    outside = Outside()

    @tool(side_effect_class="external", scope=["to"])
    async def reply(to: str, text: str) -> str:
        outside.sent.append(f"{to}: {text}")
        return "delivered"

    async def answer(run: Any) -> str:
        text = await run.memo("draft", str.upper, run.inputs["text"])
        return str(await reply(run.inputs["from"], text))

    async def chat(engine: Engine, messages: list[tuple[str, str, str]]) -> list[str]:
        lives = [engine.arun(answer, {"from": who, "text": text}, run_id=message) for message, who, text in messages]
        return [str(outcome.result) for outcome in await asyncio.gather(*lives)]

    messages = [("m1", "ann", "hi"), ("m2", "bob", "yes"), ("m1", "ann", "hi")]
    url = f"sqlite:///{tmp_path}/runtime_state.db"
    with Engine(url, entrypoint="chat") as engine:
        assert asyncio.run(chat(engine, messages[:2])) == ["delivered", "delivered"]
        assert asyncio.run(chat(engine, messages[2:])) == ["delivered"]
        assert {row.entrypoint for row in engine.runs()} == {"chat"}
    assert sorted(outside.sent) == ["ann: HI", "bob: YES"]


def test_a_ledger_of_the_first_schema_opens_in_this_one_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runtime_state.db"
    old = SqliteConnection(str(path))
    migrate(old, NOW, migrations=shipped_migrations()[:2])
    store = SqlStore(old, "sqlite")
    columns = "run_id, name, created_at, updated_at, status, entrypoint, run_spec_json, run_spec_hash, workspace"
    old.write(
        f"INSERT INTO runs ({columns}) VALUES ('r1', 'n', '{NOW}', '{NOW}', 'queued', 'cli', '{{}}', 'h', '/w')", {}
    )
    old.write(f"INSERT INTO run_steps (step_id, run_id, step_index, created_at, updated_at, status, phase, name, occurrence)"
              f" VALUES ('r1.s0', 'r1', 0, '{NOW}', '{NOW}', 'running', 'run', 'main', 1)", {})  # fmt: skip
    for number in range(1, 4):
        old.write(
            "INSERT INTO tool_calls (tool_call_id, run_id, step_id, created_at, updated_at, tool_name, raw_tool_name,"
            " tool_namespace, side_effect_class, replay_policy, guarantee, normalized_args_hash, occurrence,"
            f" idempotency_key, status, attempt, fence, started_at) VALUES ('r1.{number}', 'r1', 'r1.s0', '{NOW}', '{NOW}',"
            f" 't', 't', 'local', 'external', 'ASK', 'ask', 'h', {number}, 'k{number}', 'running', 1, 1, '{NOW}')",
            {},
        )
    assert store.meta("ledger_id") is None
    old.close()
    before = everything(path)
    opened = open_store(str(path), SystemClock())
    try:
        assert opened.calls.count("r1") == 3
        assert opened.calls.by_id("r1.2") is not None
    finally:
        opened.connection.close()
    after = everything(path)
    for table in ("runs", "run_steps", "tool_calls"):
        kept = [row[: len(before[table][0])] for row in after[table]]
        assert kept == before[table], table


def test_what_it_is_not_for_stands_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "Outside its purpose: horizontal scale and security hardening." in readme
    assert "one worker is the mode it is made for" in readme
    assert "what a wrong declaration causes is not caught" in readme.lower()


def test_rows_of_a_run_made_by_a_test_are_rows_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "deep" / "mine.db"
    store = open_store(str(path), SystemClock())
    store.connection.begin()
    seed(store)
    store.calls.insert(new_call(1), NOW)
    store.connection.commit()
    store.connection.close()
    assert [row[1] for row in everything(path)["tool_calls"]] == ["r1.1"]
