"""Logs and transcripts of a run, and that none of its files can stop it: they are exports, written anew from the rows."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from perdure.testing import FakeClock
from tests.integration.engine_support import Crash, Outside, live, mailer, open_engine
from tests.integration.files_support import PAGE, REPORT, lost, report, workspace

# --- logs and transcripts -------------------------------------------------------------------------------------------


def test_the_log_has_a_line_for_each_life_step_call_and_question(tmp_path: Path) -> None:
    send = lost(Outside())

    def main(run: Any) -> Any:
        with run.step("mail"):
            return send("boss")

    live(tmp_path, main)
    text = (workspace(tmp_path) / "run.log").read_text("utf-8")
    said = [line.partition("  ")[2] for line in text.splitlines()]
    wanted = (
        "life 1 began",
        "step r1.s1 mail running",
        "r1.1 send running (attempt 1)",
        "r1.1 send in_doubt",
        "waits for a person: in_doubt",
        "run r1: waiting (in_doubt)",
        "life ended: waiting (in_doubt)",
    )
    places = [next(at for at, line in enumerate(said) if line.startswith(begin)) for begin in wanted]
    assert places == sorted(places)
    assert "boss" not in text  # names and ids, and no arguments
    live(tmp_path, main, resume=True)
    assert (workspace(tmp_path) / "run.log").read_text("utf-8").startswith(text)  # only added to


def test_lines_that_a_killed_life_did_not_come_to_write_are_told_by_the_next(tmp_path: Path) -> None:
    send = mailer(Outside())

    def main(run: Any) -> None:
        send("boss")
        raise Crash

    live(tmp_path, main)
    log = workspace(tmp_path) / "run.log"
    lines = log.read_text("utf-8").splitlines()
    log.write_text(lines[0] + "\n")
    live(tmp_path, main, resume=True)
    told = log.read_text("utf-8").splitlines()
    assert [line for line in told if "r1.1 send succeeded" in line] == [
        next(line for line in lines if "r1.1 send succeeded" in line) + "  [told late]"
    ]
    assert sum("life 1 began" in line for line in told) == 1


def test_what_was_undone_is_in_no_log(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        engine.run(lambda run: None, run_id="r1")
        ledger = engine._ledger

        def fails(store: Any) -> None:
            store.questions.ask(
                "a1", run_id="r1", fence=1, tool_call_id=None, kind="question", summary="?", now="2026-01-01"
            )
            raise Crash

        for alone in (True, False):
            if not alone:
                ledger.post(lambda store: None, lambda problem: None)
            with pytest.raises(Crash):
                ledger.run(fails)
    assert "a1" not in (workspace(tmp_path) / "run.log").read_text("utf-8")


def test_a_transcript_grows_by_what_is_new_and_says_later_what_became_of_a_call(tmp_path: Path) -> None:
    send = lost(Outside())

    def main(run: Any) -> Any:
        run.turn(
            "chat", lambda messages: "I shall write to the boss.", [{"role": "user", "content": "# Tell the boss"}]
        )
        return send("boss")

    live(tmp_path, main)
    path = workspace(tmp_path) / "transcript.md"
    first = path.read_text("utf-8")
    assert "**user:** # Tell the boss" in first
    assert "**model:** I shall write to the boss." in first
    assert "`send` · in_doubt" in first
    with open_engine(tmp_path) as engine:
        engine.resolve("r1.2", "happened", result="found")
    live(tmp_path, main, resume=True)
    second = path.read_text("utf-8")
    assert second.startswith(first)
    assert "`send` · succeeded" in second[len(first) :]
    assert second.count("I shall write to the boss.") == 1


# --- only exports ---------------------------------------------------------------------------------------------------


def everything(folder: Path) -> dict[str, str]:
    return {item.name: item.read_text("utf-8") for item in sorted(workspace(folder).iterdir()) if item.is_file()}


@pytest.mark.parametrize("damage", ["deleted", "filled with noise"])
def test_a_run_goes_on_whatever_became_of_its_files_and_they_are_written_anew(tmp_path: Path, damage: str) -> None:
    outside = Outside()
    send = mailer(outside)

    def main(run: Any) -> None:
        send("a")
        if run.attempt == 1:
            raise Crash
        send("b")

    live(tmp_path, main)
    if damage == "deleted":
        shutil.rmtree(workspace(tmp_path))
    else:
        for name in everything(tmp_path):
            (workspace(tmp_path) / name).write_bytes(b"\xff\x00 noise")
    assert live(tmp_path, main, resume=True).status == "succeeded"
    assert outside.sent == ["a:", "b:"]
    assert report(tmp_path)["effects"]["in_all"] == 2
    assert (workspace(tmp_path) / "transcript.md").read_text("utf-8").startswith("# Transcript of r1")


def test_files_that_are_written_anew_tell_the_same(tmp_path: Path) -> None:
    send = mailer(Outside())

    def main(run: Any) -> None:
        with run.step("mail"):
            send("a")

    live(tmp_path, main)
    before = everything(tmp_path)
    for name in before:
        (workspace(tmp_path) / name).unlink()
    with open_engine(tmp_path) as engine:
        written = engine.export("r1")
    after = everything(tmp_path)
    assert {path.name for path in written} == set(before) == set(after)
    log = {name: sorted(text["run.log"].splitlines()) for name, text in (("before", before), ("after", after))}
    assert log["before"] == log["after"]
    same = set(before) - {"run.log", "restart.sh"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}


def test_a_workspace_that_cannot_be_written_is_said_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state/workspaces").mkdir(parents=True)
    (tmp_path / "state/workspaces/r1").write_text("a file stands where the folder should be")
    outside = Outside()
    send = mailer(outside)

    def main(run: Any) -> None:
        send("a")
        if run.attempt == 1:
            raise Crash

    with caplog.at_level(logging.WARNING, logger="perdure"):
        live(tmp_path, main)
        assert live(tmp_path, main, resume=True).status == "succeeded"
    assert outside.sent == ["a:"]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "the files of run r1 cannot be written"
    ] * 2  # once an engine


def test_a_link_that_a_tool_has_put_there_leads_nothing_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "precious.txt"
    outside.write_text("precious")

    def main(run: Any) -> None:
        for name in ("run.log", "transcript.md", PAGE, REPORT):
            (run.workspace / name).unlink(missing_ok=True)
            (run.workspace / name).symlink_to(outside)

    assert live(tmp_path, main).status == "succeeded"
    assert outside.read_text() == "precious"


def test_what_an_expected_output_of_a_job_names_is_there_in_time(tmp_path: Path) -> None:
    (tmp_path / "quiet.py").write_text("def main(run):\n    return run.memo('x', lambda: 'kept')\n")
    job = tmp_path / "quiet.job.yaml"
    job.write_text("name: quiet\nagent: {python: 'quiet:main'}\nartifacts: {expected_outputs: [transcript.md]}\n")
    with open_engine(tmp_path) as engine:
        assert engine.run(job, run_id="r1").status == "succeeded"
    (file,) = report(tmp_path)["artifacts"]
    assert (file["path"], file["state"]) == ("transcript.md", "present")


# --- ends without a life --------------------------------------------------------------------------------------------


def test_a_run_that_is_cancelled_while_it_waits_has_its_report_at_once(tmp_path: Path) -> None:
    send = lost(Outside())
    assert live(tmp_path, lambda run: send("boss")).status == "waiting"
    with open_engine(tmp_path) as engine:
        engine.cancel("r1", reason="not needed any more")
        found = report(tmp_path)
    assert found["status"] == "cancelled"
    assert [call["tool_call_id"] for call in found["in_doubt"]["calls"]] == ["r1.1"]
    assert any("calls explain r1.1" in command for command in found["commands"].values())
    assert "run r1: cancelled" in (workspace(tmp_path) / "run.log").read_text("utf-8")


def test_a_run_that_its_deadline_ends_while_it_waits_has_its_report(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    job = tmp_path / "late.job.yaml"
    job.write_text("name: late\nagent: {python: 'late:main'}\ndeadline: 2026-01-01T00:00:01Z\n")
    clock = FakeClock("2026-01-01T00:00:00.000000Z")
    with open_engine(tmp_path, clock=clock) as engine:
        assert engine.run(job, run_id="r1").status == "waiting"
        clock.advance(5)
        engine.runs()
    assert report(tmp_path)["error"]["code"] == "deadline"
    command = report(tmp_path)["commands"]["give it more time and go on"]
    assert command.startswith("perdure resume r1 --grant deadline=+2h")
    assert "put --grant deadline=+2h behind the last line" in (workspace(tmp_path) / "restart.sh").read_text("utf-8")


def test_a_run_that_a_denial_ended_offers_no_resume_in_its_files(tmp_path: Path) -> None:
    (tmp_path / "denied_agent.py").write_text(LATE)
    job = tmp_path / "denied.job.yaml"
    job.write_text("name: denied\nagent: {python: 'denied_agent:main'}\n")
    with open_engine(tmp_path) as engine:
        engine.deny(engine.run(job, run_id="r1").waiting_for[0].id, reason="no")
        assert engine.resume("r1").error_code == "denied"
    assert not any("resume" in command for command in report(tmp_path)["commands"].values())
    _, head, other, last = (workspace(tmp_path) / "restart.sh").read_text("utf-8").splitlines()
    assert ("stays denied" in head, " runs show r1 " in last, "resume" in last) == (True, True, False)
    assert other.startswith("# For another answer: perdure fork r1 --effects live ")


LATE = """
from perdure import tool

@tool(side_effect_class="external", approval="always")
def send(to: str) -> str:
    return to

def main(run):
    return send("boss")
"""
