"""What stands on stdout: exactly one document with ``-o json``, one item a line with ``-o jsonl``, plain tables else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.cli_support import REPORT, TO_BOSS, Desk

RUN_KEYS = {
    *("schema", "run_id", "name", "status", "reason", "result", "calls", "replayed", "settled", "challenged", "unmet"),
    *("duplicates_found", "attempt", "waiting_for", "workspace", "resume_command"),
}
CALL_KEYS = {
    *("tool_call_id", "run_id", "step_id", "tool_name", "raw_tool_name", "side_effect_class", "replay_policy"),
    *("guarantee", "status", "attempt", "occurrence", "idempotency_key", "prepared_at", "started_at", "finished_at"),
    "error_code",
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A ledger with a run that succeeded and one in doubt; no test of this module adds to it."""
    found = Desk(tmp_path_factory.mktemp("desk"))
    found.write("report.py", REPORT)
    crash = {"PERDURE_TEST_CRASH_AFTER_TOOL": "send_mail"}
    assert found.type("run", "report.py:main", *TO_BOSS, "--run-id", "done").code == 0
    assert found.type("run", "report.py:main", *TO_BOSS, "--run-id", "doubt", env=crash).code == 137
    assert found.type("resume", "doubt").code == 7
    return found


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_what_an_agent_prints_is_not_on_stdout(tmp_path: Path, form: str) -> None:
    desk = Desk(tmp_path)
    desk.write("report.py", REPORT)
    said = desk.type("run", "report.py:chatty", *TO_BOSS, "-o", form)
    assert said.code == 0
    assert said.document["status"] == "succeeded"
    for text in ("the agent talks", "without a newline", "its child talks", "to the descriptor"):
        assert text in said.err


def test_a_run_is_shown_with_the_keys_of_the_contract(desk: Desk) -> None:
    document = desk.type("runs", "show", "doubt", "-o", "json").document
    assert document["schema"] == "perdure.run/v1"
    assert set(document) >= RUN_KEYS
    assert set(document["waiting_for"][0]) >= {"kind", "tool_call_id", "tool_name", "since", "commands"}
    assert [life["how"] for life in document["lives"]] == ["crashed", "waiting (in_doubt)"]
    assert [step["name"] for step in document["steps"]] == ["main"]


def test_calls_are_listed_with_the_keys_of_the_contract(desk: Desk) -> None:
    document = desk.type("calls", "ls", "-o", "json").document
    assert document["schema"] == "perdure.calls/v1"
    assert [set(call) for call in document["calls"]] == [CALL_KEYS | {"simulated", "inherited_from"}] * 2
    assert [call["tool_call_id"] for call in document["calls"]] == ["done.2", "doubt.2"]
    inner = desk.type("calls", "ls", "done", "--inner", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["tool_name"] for line in inner] == ["draft", "send_mail"]
    one = desk.type("calls", "ls", "--limit", "1", "-o", "json")
    assert [call["tool_call_id"] for call in one.document["calls"]] == ["done.2"]
    assert "--limit 0 shows all" in one.err


def test_runs_are_listed_newest_first(desk: Desk) -> None:
    document = desk.type("-o", "json", "runs", "ls").document
    assert document["schema"] == "perdure.runs/v1"
    assert [(run["run_id"], run["status"], run["entrypoint"]) for run in document["runs"]] == [
        ("doubt", "waiting", "cli"),
        ("done", "succeeded", "cli"),
    ]
    waiting = desk.type("runs", "ls", "--status", "waiting", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["run_id"] for line in waiting] == ["doubt"]


def test_the_inbox_has_the_keys_of_the_contract(desk: Desk) -> None:
    document = desk.type("inbox", "-o", "json").document
    assert document["schema"] == "perdure.inbox/v1"
    assert [set(item) >= {"kind", "id", "run_id", "since", "summary", "commands"} for item in document["items"]] == [
        True
    ]


def test_a_call_is_shown_and_explained(desk: Desk) -> None:
    shown = desk.type("calls", "show", "done.2", "-o", "json").document
    assert shown["schema"] == "perdure.call/v1"
    assert shown["request"] == {"to": "boss@example.org", "subject": "Report", "body": "about SQLite"}
    assert shown["response"] == {"id": "m1"}
    explained = desk.type("calls", "explain", "doubt.2", "-o", "json").document
    assert set(explained) - set(shown) == {"explanation"}
    assert explained["explanation"]["commands"] == explained["commands"]
    assert "lost" in explained["explanation"]["why"]


def test_the_story_of_a_call_in_doubt(desk: Desk) -> None:
    story = desk.type("calls", "explain", "doubt.2").out
    told = (
        "doubt.2  send_mail: in_doubt",
        '"boss@example.org"',
        "guarantee      ask: if its outcome is lost, a person is asked",
        "no policy rule",
        "attempt 1 started",
        "attempt 1: lost, the process that sent it is gone",
        "asked (in_doubt ",
        "perdure resolve doubt.2 --did-not-happen",
    )
    places = [story.find(text) for text in told]
    assert -1 not in places, story
    assert places == sorted(places)


def test_the_story_names_the_rule_and_the_person(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("report.py", REPORT)
    desk.write("p.yaml", "version: 1\nrules:\n  - tool: send_mail\n    approval: always\n")
    policy = ("--policy", "p.yaml")
    waits = desk.type("run", "report.py:main", *TO_BOSS, "--run-id", "w", *policy, "-o", "json")
    assert waits.code == 6
    assert desk.type("approve", waits.document["waiting_for"][0]["id"], "--resume", *policy).code == 0
    story = desk.type("calls", "explain", "w.2").out
    assert "decided by     p.yaml:3" in story
    assert "answered by " in story
    assert ": approved" in story
    assert "what you can do" not in story


def test_policy_documents(desk: Desk) -> None:
    explained = desk.type("policy", "explain", "send_mail", "--tools", "report", "-o", "json").document
    assert explained["schema"] == "perdure.policy/v1"
    assert (explained["side_effect_class"], explained["replay_policy"], explained["guarantee"]) == (
        "external",
        "ASK",
        "ask",
    )
    assert explained["rule"] is None
    assert explained["declared"] is True
    assert desk.mails() == [["boss@example.org", "Report", "about SQLite"]] * 2  # the module was not run by that
    desk.write("p.yaml", "version: 1\nrules:\n  - tool: send_mail\n    allow_args: {to: ['*@example.org']}\n")
    args = '{"to": "a@example.com"}'
    refused = desk.type("--policy", "p.yaml", "policy", "explain", "send_mail", "--args", args, "-o", "json").document
    assert refused["rule"] == {"file": "p.yaml", "line": 3}
    assert refused["call"]["refused"]
    checked = desk.type("policy", "check", "p.yaml", "-o", "json").document
    assert (checked["schema"], checked["rules"]) == ("perdure.policy_check/v1", 1)


def test_tables_are_plain_text(desk: Desk) -> None:
    lines = desk.type("calls", "ls", env={"NO_COLOR": ""}).out.splitlines()
    assert lines[0].split() == ["CALL", "TOOL", "CLASS", "GUARANTEE", "STATUS", "TRY", "STARTED", "FINISHED", "ERROR"]
    assert [line.split()[:5] for line in lines[1:]] == [
        ["done.2", "send_mail", "external", "ask", "succeeded"],
        ["doubt.2", "send_mail", "external", "ask", "in_doubt"],
    ]
    assert all(line.isascii() and line.isprintable() for line in lines)
    at = lines[0].index("STATUS")
    assert [line[at - 1] for line in lines] == [" "] * 3


def test_looking_makes_no_ledger(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for words, key in ((("runs", "ls"), "runs"), (("calls", "ls"), "calls"), (("inbox",), "items")):
        said = desk.type(*words, "-o", "json")
        assert (said.code, said.document[key]) == (0, [])
        assert said.document["ledger"] is None
        assert "there is no ledger at " in said.err
        assert "nothing waits" not in said.err
    found = desk.type("db", "path", "-o", "json").document
    assert (found["schema"], found["exists"]) == ("perdure.db/v1", False)
    assert list(tmp_path.iterdir()) == []


def test_the_place_of_the_ledger(desk: Desk) -> None:
    assert desk.type("db", "path").out == f"{desk.folder / '.perdure' / 'runtime_state.db'}\n"
    elsewhere = desk.type("db", "path", env={"PERDURE_HOME": "home"})
    assert elsewhere.out == f"{desk.folder / 'home' / 'runtime_state.db'}\n"
    by_flag = desk.type("--store", "sqlite:///x.db", "db", "path", env={"PERDURE_STORE": "sqlite:///y.db"})
    assert by_flag.out == f"{desk.folder / 'x.db'}\n"
