"""Small checks of single requirements (docs/requirements.md), through the library and through SQL as anyone may write it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import CallContext, CallFailed, Outcome, ToolFailed, tool
from perdure.core.backoff import LONGEST_SECONDS, delay_seconds
from perdure.toolbox.files import write_file
from tests.integration.engine_support import FAST, Crash

UNCLASSIFIED = pytest.mark.filterwarnings("ignore:perdure. tool .* has no side_effect_class")
READ = """
import json, sqlite3, sys
with sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True) as database:
    print(json.dumps(database.execute(sys.argv[2]).fetchall()))
"""


def live(folder: Path, main: Callable[..., Any], *, resume: bool = False, **options: Any) -> Outcome:
    """One life of run `r1`, with `main` as the agent."""
    with perdure.open(state_dir=folder / "state", tuning=FAST, **options) as engine:
        return engine.resume("r1", main=main) if resume else engine.run(main, run_id="r1")


def rows(folder: Path, sql: str) -> list[list[Any]]:
    """Ask the ledger from another process, as a person would while the engine has it open."""
    path = str(folder / "state" / "runtime_state.db")
    done = subprocess.run([sys.executable, "-S", "-c", READ, path, sql], capture_output=True, text=True, check=True)
    found: list[list[Any]] = json.loads(done.stdout)
    return found


def changed(folder: Path, sql: str) -> str:
    """Try to change the ledger with plain SQL; the complaint, or nothing."""
    with closing(sqlite3.connect(folder / "state" / "runtime_state.db")) as database:
        try:
            database.execute(sql)
        except sqlite3.IntegrityError as problem:
            return str(problem)
    return ""


# --- R009, R077, R078: nothing is entered without a row ------------------------------------------------------


@UNCLASSIFIED
@pytest.mark.parametrize("strict", [True, False], ids=["strict receipts", "shared commits"])
def test_no_handler_is_entered_without_a_committed_row(tmp_path: Path, strict: bool) -> None:
    """Each tool looks into the ledger from another process while it runs: its own row is there, started and durable."""
    seen: dict[str, list[list[Any]]] = {}

    def look(call: CallContext) -> str:
        sql = f"SELECT status, tool_name FROM tool_calls WHERE tool_call_id = '{call.tool_call_id}'"
        seen[call.tool_call_id] = rows(tmp_path, sql)
        return call.tool_call_id

    def declared(name: str, side_effect_class: str | None, **more: Any) -> Any:
        @tool(name=name, side_effect_class=side_effect_class, **more)
        def act(*, call: CallContext) -> str:
            return look(call)

        return act

    classes = ["external", "memory", "local", "read_only", None]
    tools = [declared(f"tool_{name}", name) for name in classes] + [declared("bounded", "external", timeout="10s")]

    @tool(side_effect_class="external")
    async def awaited(*, call: CallContext) -> str:
        return look(call)

    def main(run: Any) -> list[str]:
        inside = run.memo("memo", tools[0], key="memo")
        return [one() for one in tools] + [run.call(awaited), inside]

    with perdure.open(state_dir=tmp_path / "state", tuning=perdure.Tuning(strict_receipts=strict)) as engine:
        done = engine.run(main, run_id="r1")
    entered = done.result
    assert len(set(entered)) == len(classes) + 3 == len(seen)
    names = {row[0][1]: row[0][0] for row in seen.values()}
    assert names == dict.fromkeys([*(f"tool_{name}" for name in classes), "bounded", "awaited"], "running")


def test_a_thread_of_the_program_without_a_run_cannot_pass_the_ledger_by(tmp_path: Path) -> None:
    entered: list[int] = []
    problems: list[str] = []

    @tool(side_effect_class="external")
    def send() -> None:
        entered.append(1)

    def bypass() -> None:
        try:
            send()
        except perdure.NoActiveRun as problem:
            problems.append(type(problem).__name__)

    def main(run: Any) -> None:
        thread = threading.Thread(target=bypass)
        thread.start()
        thread.join()

    assert live(tmp_path, main).status == "succeeded"
    assert (entered, problems) == ([], ["NoActiveRun"])


# --- R044, R080, R083, R084: the class of a tool --------------------------------------------------------------


@UNCLASSIFIED
def test_a_tool_that_nobody_classified_is_met_on_resume_and_not_done_again(tmp_path: Path) -> None:
    done: list[int] = []

    @tool
    def mystery(x: int) -> int:
        done.append(x)
        return x

    def main(run: Any) -> int:
        found = mystery(7)
        if run.attempt == 1:
            raise Crash
        return found

    assert live(tmp_path, main).status == "failed"
    assert (live(tmp_path, main, resume=True).result, done) == (7, [7])
    assert rows(tmp_path, "SELECT side_effect_class, replay_policy FROM tool_calls") == [["external", "ASK"]]


def test_no_row_has_a_class_or_a_policy_that_the_engine_does_not_know(tmp_path: Path) -> None:
    @tool(side_effect_class="external")
    def send() -> None:
        return None

    live(tmp_path, lambda run: send())
    for column in ("side_effect_class", "replay_policy", "status"):
        assert "CHECK" in changed(tmp_path, f"UPDATE tool_calls SET {column} = 'harmless'")


def test_an_invalid_class_is_warned_about_once_a_run(tmp_path: Path) -> None:
    sent: list[int] = []

    @tool(side_effect_class="harmless")
    def send(k: int) -> int:
        sent.append(k)
        return k

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = live(tmp_path, lambda run: [send(k) for k in range(3)])
    about = [str(one.message) for one in caught if "harmless" in str(one.message)]
    assert (done.status, len(about)) == ("succeeded", 1), about
    assert rows(tmp_path, "SELECT DISTINCT side_effect_class FROM tool_calls") == [["external"]]


POLICY = """\
version: 1
rules:
  - {tool: post, side_effect_class: external, scope: [to]}
"""


@UNCLASSIFIED
@pytest.mark.parametrize("line", ["kept", "removed"])
def test_without_its_line_of_the_policy_a_tool_is_still_not_done_twice(tmp_path: Path, line: str) -> None:
    sent: list[str] = []
    policy = tmp_path / "p.policy.yaml"

    @tool(name="post")
    def post(to: str) -> str:
        sent.append(to)
        return to

    def main(run: Any) -> str:
        found = post("ann")
        if run.attempt == 1:
            raise Crash
        return str(found)

    policy.write_text(POLICY)
    assert live(tmp_path, main, policies=[policy]).status == "failed"
    if line == "removed":
        policy.write_text("version: 1\nrules: []\n")
    assert (live(tmp_path, main, resume=True, policies=[policy]).result, sent) == ("ann", ["ann"])


# --- R051, R052, R058: keys and retries ----------------------------------------------------------------------


def test_no_call_can_stand_in_the_ledger_without_a_key_or_with_the_key_of_another(tmp_path: Path) -> None:
    @tool(side_effect_class="external")
    def send(k: int) -> int:
        return k

    live(tmp_path, lambda run: [send(k) for k in range(2)])
    assert "NOT NULL" in changed(tmp_path, "UPDATE tool_calls SET idempotency_key = NULL")
    assert "UNIQUE" in changed(tmp_path, "UPDATE tool_calls SET idempotency_key = 'one for all'")


KEY = """
from perdure.core.identity import idempotency_key
from perdure.model.toolcall import CallKey
print(idempotency_key("ledger", "run", CallKey("local", "send", "hash"), '["ann"]', 2))
"""


def test_a_key_is_the_same_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", KEY], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "random")
    }
    assert len(found) == 1 and len(found.pop().strip()) == 64


def test_a_call_that_did_nothing_is_tried_again_with_its_key_within_its_limit(tmp_path: Path) -> None:
    keys: list[str] = []

    @tool(side_effect_class="external", max_attempts=3)
    def send(*, call: CallContext) -> None:
        keys.append(call.idempotency_key)
        raise ToolFailed("busy")

    def main(run: Any) -> str:
        try:
            send()
        except CallFailed:
            return "gave up"
        return "sent"

    assert live(tmp_path, main).result == "gave up"
    assert (len(keys), len(set(keys))) == (3, 1)


def test_the_waits_between_attempts_grow_and_are_bounded() -> None:
    longest = [delay_seconds(attempt, 0.999) for attempt in range(1, 40)]
    least = [delay_seconds(attempt, 0.0) for attempt in range(1, 40)]
    assert all(later >= sooner for sooner, later in pairwise(least))
    assert least[1] > longest[0] * 1.1 and max(longest) <= LONGEST_SECONDS * 1.25


# --- R054: the scope of an effect ----------------------------------------------------------------------------


def test_the_shipped_tools_say_which_effect_it_is_and_not_in_which_words() -> None:
    from perdure.toolbox.mail import send_mail
    from perdure.toolbox.upload import upload

    assert send_mail.declaration.scope == ("to",)
    assert upload.declaration.scope == ("key",)


# --- R061: reads are made again only where their receipt is missing ------------------------------------------


@pytest.mark.parametrize("receipt", ["kept", "missing"])
def test_a_page_is_asked_for_again_only_if_its_receipt_is_missing(tmp_path: Path, receipt: str) -> None:
    asked: list[str] = []

    @tool(side_effect_class="read_only")
    def crawl(url: str) -> str:
        asked.append(url)
        if receipt == "missing" and len(asked) == 2:
            raise Crash
        return f"text of {url}"

    def main(run: Any) -> list[str]:
        found = [crawl("a")]
        try:
            found.append(crawl("b"))
        except CallFailed:
            found.append("b is gone")
        if run.attempt == 1:
            raise Crash
        return found

    live(tmp_path, main)
    again = live(tmp_path, main, resume=True)
    assert asked == ["a", "b"]
    assert again.result == ["text of a", "text of b" if receipt == "kept" else "b is gone"]


# --- R103: the check that the source documents suggest proves nothing ----------------------------------------


def test_looking_for_equal_keys_proves_nothing_and_counting_outside_does(tmp_path: Path) -> None:
    """Two sends of one effect: the query for repeated keys finds no row, because the column is UNIQUE; the outside counts two."""
    outside: list[str] = []

    @tool(side_effect_class="external", scope=["to"])
    def send(to: str) -> str:
        outside.append(to)
        return to

    live(tmp_path, lambda run: [send("ann"), send("ann")])
    repeated = "SELECT idempotency_key FROM tool_calls GROUP BY idempotency_key HAVING count(*) > 1"
    assert rows(tmp_path, repeated) == []
    assert Counter(outside) == {"ann": 2}
    per_scope = (
        "SELECT effect_scope, count(*) FROM v_effects WHERE status = 'succeeded' GROUP BY tool_name, effect_scope"
    )
    assert [count for _, count in rows(tmp_path, per_scope)] == [2]


# --- R168: the activity log ----------------------------------------------------------------------------------


def test_the_activity_log_is_a_view_of_external_calls(tmp_path: Path) -> None:
    @tool(side_effect_class="external", scope=["to"])
    def send(to: str, *, call: CallContext) -> str:
        if to == "declined":
            raise ToolFailed("declined", retry=False)
        if to == "lost":
            raise ConnectionResetError
        call.record(f"ref of {to}")
        return to

    @tool(side_effect_class="local")
    def write() -> None:
        return None

    def main(run: Any) -> None:
        write()
        send("ann")
        try:
            send("declined")
        except CallFailed:
            send("lost")

    assert live(tmp_path, main).reason == "in_doubt"
    columns = rows(tmp_path, "SELECT name FROM pragma_table_info('activity_log')")
    assert [name for (name,) in columns] == [
        "idem_key", "task_id", "action", "status", "provider_ref", "created_at", "updated_at",
    ]  # fmt: skip
    told = rows(tmp_path, "SELECT task_id, action, status, provider_ref FROM activity_log ORDER BY created_at")
    assert told == [
        ["r1", "send", "DONE", "ref of ann"],
        ["r1", "send", "FAILED", None],
        ["r1", "send", "INTENT", None],
    ]
    assert rows(tmp_path, "SELECT count(DISTINCT idem_key) FROM activity_log") == [[3]]


# --- R047, R061: files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["kept", "deleted"])
def test_a_file_that_is_gone_is_made_again_and_one_that_is_there_is_not(tmp_path: Path, file: str) -> None:
    def main(run: Any) -> str:
        write_file("a.txt", "hello")
        if run.attempt == 1:
            raise Crash
        return (run.workspace / "a.txt").read_text()

    first = live(tmp_path, main)
    if file == "deleted":
        Path(first.workspace, "a.txt").unlink()
    again = live(tmp_path, main, resume=True)
    assert (again.result, again.replayed) == ("hello", int(file == "kept"))
