"""The quickstart by the command line: killed between sent and recorded, and settled by a person."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.acceptance.cli_support import REPORT, TO_BOSS, Desk

CRASH = {"PERDURE_TEST_CRASH_AFTER_TOOL": "send_mail"}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder with the quickstart in it."""
    found = Desk(tmp_path)
    found.write("report.py", REPORT)
    return found


def crashed(desk: Desk, *flags: str) -> None:
    """Run the quickstart into a crash after the mail was sent and before that was recorded."""
    died = desk.type(*flags, "run", "report.py:main", *TO_BOSS, "--run-id", "w47", env=CRASH)
    assert died.code == 137
    assert any(line.startswith("PERDURE CRASH after tool send_mail") for line in died.err.splitlines())
    assert died.out == ""
    assert len(desk.mails()) == 1


def test_happened(desk: Desk) -> None:
    crashed(desk)
    found = desk.type("resume", "w47", "-o", "json")
    assert found.code == 7
    run = found.document
    assert (run["status"], run["reason"], run["attempt"]) == ("waiting", "in_doubt", 2)
    assert run["calls"] == {"in_doubt": 1}
    waiting = run["waiting_for"][0]
    assert (waiting["kind"], waiting["tool_call_id"], waiting["tool_name"]) == ("in_doubt", "w47.2", "send_mail")

    items = desk.type("inbox", "-o", "json").document["items"]
    assert [(item["kind"], item["run_id"], item["commands"]) for item in items] == [
        ("in_doubt", "w47", waiting["commands"])
    ]
    assert "perdure resolve w47.2 --happened" in waiting["commands"]

    settled = desk.type("resolve", "w47.2", "--happened", "--result", '{"id": "m1"}', "--resume", "-o", "json")
    assert settled.code == 0
    assert settled.document["result"] == {"sent": {"id": "m1"}}
    assert settled.document["replayed"] == 1
    assert desk.mails() == [["boss@example.org", "Report", "about SQLite"]]
    assert desk.type("inbox", "-o", "json").document["items"] == []
    again = desk.type("run", "report.py:main", *TO_BOSS, "--run-id", "w47", "-o", "json")
    assert (again.code, again.document["attempt"]) == (0, 3)  # the stored outcome; main is not entered
    assert len(desk.mails()) == 1


def test_did_not_happen_sends_it_again(desk: Desk) -> None:
    crashed(desk)
    assert desk.type("resume", "@last").code == 7
    found = desk.type("resolve", "w47.2", "--did-not-happen", "--reason", "not in the outbox", "--resume")
    assert found.code == 0
    assert len(desk.mails()) == 2
    call = desk.type("calls", "show", "w47.2", "-o", "json").document
    verdict = next(item for item in call["evidence"] if item["kind"] == "verdict")
    assert (verdict["says"], call["attempt"], call["status"]) == ("did_not_happen", 2, "succeeded")
    assert "not in the outbox" in verdict["detail"]


def test_abandon_goes_on_without_knowing(desk: Desk) -> None:
    crashed(desk)
    assert desk.type("resume", "w4").code == 7
    found = desk.type("resolve", "w47.2", "--abandon", "--resume", "-o", "json")
    assert (found.code, found.document["status"]) == (1, "failed")
    assert found.document["error"]["code"] == "CallAbandoned"
    assert len(desk.mails()) == 1


def test_happened_without_a_result_says_what_the_caller_gets(desk: Desk) -> None:
    crashed(desk)
    assert desk.type("resume", "w47").code == 7
    found = desk.type("resolve", "w47.2", "--happened")
    assert (found.code, found.out) == (0, "w47.2 (send_mail): succeeded\n")
    assert "will get None" in found.err
    assert "go on with: perdure resume w47" in found.err
    assert desk.type("resume", "w47", "-o", "json").document["result"] == {"sent": None}


def test_printed_commands_work_when_they_are_pasted(desk: Desk) -> None:
    flags = ("--state-dir", "my state")
    crashed(desk, *flags)
    shown = desk.type("runs", "show", "w47", *flags, "-o", "json").document
    resumed = desk.paste(f"{shown['resume_command']} -o json")
    assert resumed.code == 7
    assert not (desk.folder / ".perdure").exists()
    commands = resumed.document["waiting_for"][0]["commands"]
    happened = next(command for command in commands if "--happened" in command)
    assert "--state-dir 'my state'" in happened
    assert desk.paste(happened).code == 0
    assert desk.paste(resumed.document["resume_command"]).code == 0
    assert len(desk.mails()) == 1


def test_what_was_printed_for_people_can_be_pasted_too(desk: Desk) -> None:
    crashed(desk)
    waits = desk.type("resume", "w47")
    lines = [line.strip().removeprefix("go on with: ") for line in waits.err.splitlines()]
    commands = [line for line in lines if line.startswith("perdure ")]
    assert commands[0] == "perdure resolve w47.2 --happened"
    assert desk.paste(commands[0]).code == 0
    assert desk.paste(commands[-1]).code == 0
    assert len(desk.mails()) == 1


def test_a_refused_spec_names_a_command_that_works(desk: Desk) -> None:
    assert desk.type("--state-dir", "s", "run", "report.py:main", *TO_BOSS, "--run-id", "w47").code == 0
    refused = desk.type(
        *("--state-dir", "s", "run", "report.py:main", "-i", "topic=Other", "-i", "to=boss@example.org"),
        *("--run-id", "w47", "-o", "json"),
    )
    refused.is_error(2, "PERDURE-130")
    assert "topic" in refused.document["message"]
    command = shlex.split(refused.document["next"], comments=True)
    assert command[0] == "perdure"
    assert desk.type(*command[1:]).code == 0
    assert len(desk.mails()) == 1


def test_a_policy_of_the_command_line_stands_in_the_printed_commands(desk: Desk) -> None:
    desk.write("strict.yaml", "version: 1\nrules:\n  - tool: send_mail\n    approval: always\n")
    found = desk.type("run", "report.py:main", *TO_BOSS, "--policy", "strict.yaml", "-o", "json")
    assert found.code == 6
    assert "--policy strict.yaml" in found.document["resume_command"]
    approve = next(c for c in found.document["waiting_for"][0]["commands"] if c.startswith("perdure approve"))
    assert desk.mails() == []
    assert desk.paste(f"{approve} --resume").code == 0
    assert len(desk.mails()) == 1


@pytest.mark.parametrize(("verdict", "mails"), [("--same", 1), ("--another", 2)])
def test_a_challenge_is_answered(desk: Desk, verdict: str, mails: int) -> None:
    first = {"PERDURE_TEST_CRASH_AFTER_TOOL": "look", "WORDING": "first"}
    died = desk.type("run", "report.py:fickle", "--run-id", "f", env=first)
    assert died.code == 137
    waits = desk.type("resume", "f", "-o", "json")
    assert (waits.code, waits.document["reason"]) == (6, "challenge")
    assert len(desk.mails()) == 1
    challenged = waits.document["waiting_for"][0]["tool_call_id"]
    assert f"perdure resolve {challenged} {verdict}" in waits.document["waiting_for"][0]["commands"]
    desk.type("resolve", challenged, "--same", "f.99").is_error(2, "PERDURE-160")
    settled = desk.type("resolve", challenged, verdict, "--resume", "-o", "json")
    assert settled.code == 0
    assert settled.document["result"] == {"id": "m1"}
    assert len(desk.mails()) == mails


def test_a_denied_call_ends_the_run(desk: Desk) -> None:
    waits = desk.type("run", "report.py:pay", "-o", "json")
    assert (waits.code, waits.document["reason"]) == (6, "approval")
    question = waits.document["waiting_for"][0]["id"]
    denied = desk.type("deny", question, "--reason", "too much", "--resume", "-o", "json")
    assert (denied.code, denied.document["status"]) == (9, "failed")
    assert "too much" in denied.document["error"]["detail"]
    assert not (desk.folder / "wires.log").exists()


def test_a_job_whose_module_runs_itself_is_started_once(desk: Desk) -> None:
    desk.write(
        "report.job.yaml",
        'name: weekly\nagent: {python: "report:main"}\ntools: [report]\n'
        "inputs: {topic: SQLite, to: boss@example.org}\n",
    )
    found = desk.type("run", "report.job.yaml", "-o", "json")
    assert (found.code, found.document["name"]) == (0, "weekly")
    assert len(desk.mails()) == 1
    assert len(desk.rows()["runs"]) == 1
