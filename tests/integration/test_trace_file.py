"""``trace.json``: what it tells, and that nothing depends on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure import tool
from tests.integration.engine_support import Outside, mailer, open_engine


def run_twice(folder: Path, harm: Any = None) -> tuple[Any, list[str], list[Any]]:
    """Live two lives of a run, with some harm done to its trace in between; return where it stands and what was sent."""
    outside, broken = Outside(), [True]
    send = mailer(outside, scope=["to"])

    @tool(name="read", side_effect_class="read_only")
    def read() -> str:
        if broken:
            raise OSError("no such page")
        return "page"

    def main(run: Any) -> str:
        with run.step("letters", phase="send"):
            send("ann", "secret words")
        return str(read())

    with open_engine(folder) as engine:
        assert engine.run(main, run_id="r1").status == "failed"
        path = folder / "state" / "workspaces" / "r1" / "trace.json"
        if harm is not None:
            harm(path)
        broken.clear()
        outcome = engine.resume("r1", main=main)
        calls = [(call["tool_call_id"], call["status"], call["attempt"]) for call in engine.calls("r1")]
    return (outcome.status, outcome.result, outcome.replayed, outcome.attempt), outside.sent, calls


@pytest.fixture
def _traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_TRACE", "1")


@pytest.mark.usefixtures("_traced")
def test_lives_steps_and_calls_are_spans_with_their_ids_and_without_what_was_said(tmp_path: Path) -> None:
    run_twice(tmp_path)
    text = (tmp_path / "state" / "workspaces" / "r1" / "trace.json").read_text("utf-8")
    events = json.loads(text)["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in spans] == ["life 1", "life 2", "main", "letters", "send", "read"]
    assert all(event["dur"] >= 0 and event["args"]["perdure.run_id"] == "r1" for event in spans)
    send = spans[4]["args"]
    assert (send["perdure.step_id"], send["perdure.tool_call_id"]) == ("r1.s1", "r1.1")
    assert (send["gen_ai.operation.name"], send["gen_ai.tool.name"]) == ("execute_tool", "send")
    assert {event["cat"] for event in events if event["ph"] == "i"} >= {"checkpoint"}
    assert "secret words" not in text
    assert "sent 1" not in text


def _delete(path: Path) -> None:
    path.unlink()


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def _make_unwritable(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "in the way").touch()


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("harm", [_delete, _cut_off, _make_unwritable])
def test_a_trace_that_is_gone_or_broken_changes_nothing(tmp_path: Path, harm: Any, caplog: Any) -> None:
    untouched, harmed = tmp_path / "untouched", tmp_path / "harmed"
    untouched.mkdir()
    harmed.mkdir()
    assert run_twice(harmed, harm) == run_twice(untouched)
    told = [record for record in caplog.records if "cannot be written" in record.getMessage()]
    assert len(told) == (1 if harm is _make_unwritable else 0)


def test_without_being_asked_for_there_is_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_TRACE", raising=False)
    run_twice(tmp_path)
    assert not (tmp_path / "state" / "workspaces" / "r1" / "trace.json").exists()
