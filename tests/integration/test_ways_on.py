"""What a person is told to type next works when it is typed, and nothing is offered where nothing helps."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import tool
from perdure.cli.main import main as command_line
from perdure.core.ways_on import Program, Refusal, Standing, way_on
from perdure.model.run import RunStatus
from perdure.quick import lines_of
from perdure.testing.clock import FakeClock
from tests.integration.engine_support import Outside, mailer, open_engine

RESUME = "perdure resume w47 --state-dir here"


@tool(side_effect_class="external", approval="always")
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def type_in(folder: Path, *words: str) -> int:
    return command_line(["--state-dir", str(folder / "state"), *words])


def test_a_function_is_no_script_because_an_input_of_it_says_so(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        found = engine.run(lambda run: 1 / 0, {"job": {"agent": "run_scope"}}, run_id="w47")
    assert "engine.resume('w47', main=...)" in found.resume_command


def standing(status: RunStatus, error: str | None = None, **known: Any) -> Standing:
    return Standing("w47", "--state-dir here", status, None, error, known.pop("program", Program.FILE), **known)


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (standing(RunStatus.FAILED, "deadline"), "perdure resume w47 --grant deadline=+2h --state-dir here"),
        (
            standing(RunStatus.FAILED, "deadline", program=Program.FUNCTION),
            "engine.resume('w47', main=..., grant={'deadline': '+2h'})",
        ),
        (standing(RunStatus.FAILED, "denied", refusal=Refusal.PERSON), ""),
        (standing(RunStatus.FAILED, "CallAbandoned", given_up="w47.1"), ""),
        (standing(RunStatus.FAILED, "ValueError"), RESUME),
        (standing(RunStatus.FAILED, "ValueError", is_pruned=True), ""),
        (standing(RunStatus.CANCELLED), ""),
        (standing(RunStatus.SUCCEEDED), ""),
        (standing(RunStatus.QUEUED), RESUME),
    ],
)
def test_the_command_that_goes_on_is_one_that_does(run: Standing, told: str) -> None:
    assert way_on(run).resume == told


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (Program.FILE, "perdure fork w47 --effects live --state-dir here"),
        (Program.FUNCTION, "engine.fork('w47', effects='live', main=...)"),
        (Program.SCOPE, "start the script with another id"),
    ],
)
def test_what_a_person_denied_is_asked_anew_by_another_run_alone(program: Program, line: str) -> None:
    found = way_on(standing(RunStatus.FAILED, "denied", refusal=Refusal.PERSON, program=program))
    assert (found.resume, found.said.endswith(line)) == ("", True)
    assert found.said.startswith("what a person has denied stays denied in every life of this run")


def test_the_error_of_a_deadline_offers_more_time() -> None:
    assert perdure.DeadlineExceeded("late").next_command.endswith("--grant deadline=+2h")


def asks(folder: Path) -> str:
    """Leave a run behind that waits for an approval, and return the question."""
    with open_engine(folder) as engine:
        (item,) = engine.run(lambda _run: pay(5), run_id="p").waiting_for
    return item.id


def test_a_denial_is_said_to_stand_and_no_resume_is_offered(tmp_path: Path) -> None:
    asked = asks(tmp_path)
    with open_engine(tmp_path) as engine:
        engine.deny(asked, reason="too much")
        found = engine.resume("p", main=lambda _run: pay(5))
        again = engine.fork("p", effects="live", main=lambda _run: pay(5))
    assert (found.status, found.error_code) == ("failed", "denied")
    assert lines_of(found)[-1] == f"  {found.way.why}: engine.fork('p', effects='live', main=...)"
    assert (again.status, again.reason) == ("waiting", "approval")


def test_the_watch_of_a_cancelled_run_offers_no_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asks(tmp_path)
    assert type_in(tmp_path, "runs", "cancel", "p") == 0
    capsys.readouterr()
    assert type_in(tmp_path, "runs", "watch", "p") == 11
    said = capsys.readouterr()
    assert "cancelled" in said.out
    assert "resume" not in said.out + said.err


@pytest.mark.parametrize("form", ["table", "json", "jsonl"])
def test_the_watch_of_a_queued_run_that_nobody_drives_says_so_and_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    asked = asks(tmp_path)
    with open_engine(tmp_path) as engine:
        engine.approve(asked)
        assert engine.outcome("p").status == "queued"
    assert type_in(tmp_path, "runs", "watch", "p", "-o", form) == 6
    assert "nobody drives it; go on with: " in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_program_is_told_the_same_way_on_as_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    job, program = tmp_path / "late.job.yaml", tmp_path / "way_on_agent.py"
    job.write_text("name: late\nagent: {python: 'way_on_agent.py:main'}\ndeadline: 2026-11-20T13:00:00Z\n", "utf-8")
    program.write_text("def main(run):\n    return run.ask('which?')\n", "utf-8")

    def told(run_id: str) -> Any:
        capsys.readouterr()
        type_in(tmp_path, "runs", "show", run_id, "-o", form)
        return json.loads(capsys.readouterr().out)["resume_command"]

    with open_engine(tmp_path, clock=FakeClock("2026-11-20T12:00:00.000000Z")) as engine:
        for run_id in ("w47", "w48"):
            assert engine.run(job, run_id=run_id).reason == "question"
        engine.cancel("w48")
        engine.run(lambda _run: 1, run_id="done")
        asked = engine.run(lambda _run: pay(5), run_id="p").waiting_for[0].id
        engine.deny(asked, reason="too much")
        engine.resume("p", main=lambda _run: pay(5))
    flags = f"--state-dir {tmp_path / 'state'}"
    assert told("w47") == f"perdure resume w47 --grant deadline=+2h {flags}"
    assert (told("w48"), told("p")) == (None, None)
    assert told("done") == "start your program again with run_id='done'   # its main cannot be loaded from outside"


def test_the_command_of_a_deadline_that_a_program_reads_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, program = tmp_path / "late.job.yaml", tmp_path / "way_on_again.py"
    job.write_text("name: late\nagent: {python: 'way_on_again.py:main'}\ndeadline: 2026-11-20T13:00:00Z\n", "utf-8")
    program.write_text("def main(run):\n    run.sleep(until='2026-11-21T00:00:00Z')\n    return 1\n", "utf-8")
    with open_engine(tmp_path, clock=FakeClock("2026-11-20T12:00:00.000000Z")) as engine:
        assert engine.run(job, run_id="w47").reason == "timer"
    type_in(tmp_path, "runs", "show", "w47", "-o", "json")
    line = json.loads(capsys.readouterr().out)["resume_command"]
    assert command_line(shlex.split(line)[1:]) == 0


def test_the_summary_of_resume_all_offers_what_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, program = tmp_path / "late.job.yaml", tmp_path / "way_on_third.py"
    job.write_text("name: late\nagent: {python: 'way_on_third.py:main'}\ndeadline: 2026-11-20T13:00:00Z\n", "utf-8")
    program.write_text("def main(run):\n    return run.ask('which?')\n", "utf-8")
    with open_engine(tmp_path, clock=FakeClock("2026-11-20T12:00:00.000000Z")) as engine:
        engine.run(job, run_id="late")
    asked = asks(tmp_path)
    with open_engine(tmp_path) as engine:
        engine.deny(asked, reason="too much")
        engine.resume("p", main=lambda _run: pay(5))
    type_in(tmp_path, "resume", "--all", "--max-age", "forever", "-o", "json")
    found = {item["run_id"]: item["command"] for item in json.loads(capsys.readouterr().out)["skipped"]}
    flags = f"--state-dir {tmp_path / 'state'}"
    assert found == {
        "late": f"perdure resume late --grant deadline=+2h {flags}",
        "p": f"perdure runs show p {flags}",
    }


def test_since_takes_a_bare_number_of_seconds_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    send: Any = mailer(Outside())
    with open_engine(tmp_path) as engine:
        engine.run(lambda _run: send("ann"), run_id="r1")
    for noun in ("runs", "calls"):
        assert type_in(tmp_path, noun, "ls", "--since", "3600") == 0
        assert "r1" in capsys.readouterr().out
        assert type_in(tmp_path, noun, "ls", "--since", "0") == 0
        assert capsys.readouterr().out == ""
        assert type_in(tmp_path, noun, "ls", "--since", "3x") == 2
        assert "such as 90 (seconds), 30m, 24h or 7d" in capsys.readouterr().err


def test_a_bare_number_on_the_command_line_is_a_number_of_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send: Any = mailer(Outside())
    with open_engine(tmp_path) as engine:
        engine.run(lambda _run: send("ann"), run_id="r1")
    assert type_in(tmp_path, "db", "prune", "--dry-run", "--older-than", "3") == 0
    assert capsys.readouterr().out.startswith("0 runs")
    assert type_in(tmp_path, "db", "prune", "--dry-run", "--older-than", "0") == 0
    assert capsys.readouterr().out.startswith("1 run")
    assert type_in(tmp_path, "resume", "--all", "--max-age", "3") == 0


def test_the_forms_of_a_secret_s_source_are_told_in_clear(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "o.job.yaml"
    job.write_text("perdure: 1\nname: o\nagent: o.py:main\nsecrets: {A: 'vault:x'}\n", encoding="utf-8")
    assert type_in(tmp_path, "run", str(job)) == 2
    said = capsys.readouterr().err
    assert "env:NAME, file:PATH or cmd:COMMAND" in said
    assert "redacted" not in said


def test_a_dry_prune_counts_what_would_go_and_marks_what_could_not_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send: Any = mailer(Outside())

    def bad(_run: Any) -> None:
        send("bob", "hello " * 2000)
        raise ValueError("bad")

    with open_engine(tmp_path) as engine:
        engine.run(lambda _run: send("ann"), run_id="good")
        engine.run(bad, run_id="bad")
        told = engine.prune(older_than=0, dry_run=True)
    assert type_in(tmp_path, "db", "prune", "--older-than", "0", "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"2 runs would lose their bodies ({told.calls} calls, {told.bytes} bytes)"
    assert lines[1:] == ["  good", "  bad   failed: could not be resumed afterwards"]
    with open_engine(tmp_path) as engine:
        done = engine.prune(older_than=0)
    assert (told.runs, told.failed, told.calls, told.bytes) == (done.runs, done.failed, done.calls, done.bytes)
    assert (done.calls, done.bytes > 12_000) == (2, True)


@pytest.mark.parametrize("command", ["run", "resume", "runs", "calls", "inbox"])
def test_help_on_a_command_is_what_its_help_flag_prints(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["help", command]) == 0
    told = capsys.readouterr().out
    assert command_line([command, "--help"]) == 0
    assert told == capsys.readouterr().out
    assert told.startswith(f"usage: perdure {command} ")


@pytest.mark.parametrize(
    ("words", "near", "own"),
    [
        (("run", "a.py:main", "--runid", "x"), "did you mean --run-id?", "perdure run --help"),
        (("runs", "watch", "x", "--unti=ended"), "did you mean --until?", "perdure runs watch --help"),
        (("--state-dir", "s", "runs", "ls", "--lmit", "3"), "did you mean --limit?", "perdure runs ls --help"),
    ],
)
def test_an_unknown_flag_is_told_by_the_command_that_does_not_know_it(
    words: tuple[str, ...], near: str, own: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(list(words)) == 2
    said = capsys.readouterr().err
    assert near in said.splitlines()[0]
    assert own in said.splitlines()[2].replace("--state-dir s ", "")
