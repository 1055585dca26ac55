"""What each view offers as the next line of a run is the same, and is not refused when it is typed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure import Engine
from perdure.cli.main import main as command_line
from perdure.testing.clock import FakeClock
from tests.integration.engine_support import open_engine

AGENT = """
import os
from perdure import CallAbandoned, tool

def outside(what):
    with open("sent.txt", "a") as sent:
        sent.write(what + "\\n")
    return what

@tool(side_effect_class="external", scope=["to"])
def mail(to: str) -> str:
    return outside(to)

@tool(side_effect_class="external")
def post(text: str) -> str:
    return outside(text)

if os.path.exists("stand_in"):
    @post.simulate
    def stand_in(text):
        return "as if"

@tool(side_effect_class="external")
def lose(text: str) -> str:
    outside(text)
    raise TimeoutError("nothing came back")

def main(run):
    mail("ann")
    return "done"

def late(run):
    mail("ann")
    run.sleep(until="2026-01-02T00:00:00Z")
    return "done"

def posts(run):
    mail("ann")
    return post(run.inputs.get("text", "hello"))

def loses(run):
    mail("ann")
    return lose("hello")

def stops(run):
    mail("ann")
    if os.path.exists("stop"):
        raise KeyboardInterrupt
    return "done"

def asks(run):
    return run.ask("which?", options=["a", "b"])
"""
ID, TO_FORK = "w47", "fork w47 --effects live"
DAY = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    forget()


def forget() -> None:
    """Let the next command load the program anew, as a process of its own does."""
    sys.modules.pop("offered_agent", None)


def job(folder: Path, function: str, more: str = "") -> Path:
    """Write a job and its program."""
    (folder / "offered_agent.py").write_text(AGENT)
    (folder / "rules.policy.yaml").write_text("version: 1\nrules: []\n")
    path = folder / "offered.job.yaml"
    path.write_text(
        f"name: offered\nagent: {{python: 'offered_agent.py:{function}'}}\npolicies: [rules.policy.yaml]\n{more}"
    )
    return path


def rule(folder: Path, said: str) -> None:
    """Put one rule about the tool ``post`` in force."""
    (folder / "rules.policy.yaml").write_text(f"version: 1\nrules:\n  - tool: post\n    {said}\n")


def failed(engine: Engine, code: str) -> None:
    assert (engine.outcome(ID).status, engine.outcome(ID).error_code) == ("failed", code)


def nothing(_folder: Path) -> None:
    """What must come first where nothing must."""


def with_a_late_deadline(folder: Path) -> None:
    clock = FakeClock(DAY)
    with open_engine(folder, clock=clock) as engine:
        assert engine.run(job(folder, "late", "deadline: 2026-01-01T01:00:00Z\n"), run_id=ID).reason == "timer"
        clock.advance(7200)
        engine.runs()
        failed(engine, "deadline")


def denied_by_a_person(folder: Path) -> None:
    path = job(folder, "posts")
    rule(folder, "approval: always")
    with open_engine(folder) as engine:
        engine.deny(engine.run(path, run_id=ID).waiting_for[0].id, reason="no")
        engine.resume(ID)
        failed(engine, "denied")


def denied_by_a_rule(folder: Path) -> None:
    path = job(folder, "posts")
    rule(folder, "allow_args: {text: ['bye']}")
    with open_engine(folder) as engine:
        engine.run(path, run_id=ID)
        failed(engine, "denied")


def approved_and_then_denied_by_a_rule(folder: Path) -> None:
    path = job(folder, "posts")
    rule(folder, "approval: always")
    with open_engine(folder) as engine:
        engine.approve(engine.run(path, run_id=ID).waiting_for[0].id)
    rule(folder, "allow_args: {text: ['bye']}")
    with open_engine(folder) as engine:
        engine.resume(ID)
        failed(engine, "denied")


def allowed_again(folder: Path) -> None:
    rule(folder, "approval: never")


def given_up(folder: Path) -> None:
    with open_engine(folder) as engine:
        lost = engine.run(job(folder, "loses"), run_id=ID).waiting_for[0].tool_call_id
        assert lost is not None
        engine.resolve(lost, "abandon")
        engine.resume(ID)
        failed(engine, "CallAbandoned")


def without_a_stand_in(folder: Path) -> None:
    with open_engine(folder) as engine:
        engine.run(job(folder, "posts", "inputs: {text: hello}\n"), run_id="parent")
        engine.fork("parent", at="start", inputs={"text": "other"}, new_run_id=ID)
        failed(engine, "simulation_missing")


def stand_in(folder: Path) -> None:
    (folder / "stand_in").touch()


def interrupted(folder: Path, more: str = "") -> None:
    path = job(folder, "stops", more)
    (folder / "stop").touch()
    with open_engine(folder) as engine, pytest.raises(KeyboardInterrupt):
        engine.run(path, run_id=ID)
    (folder / "stop").unlink()


def interrupted_and_stops_on_change(folder: Path) -> None:
    interrupted(folder, "on_change: stop\n")


def answered(folder: Path) -> None:
    with open_engine(folder) as engine:
        engine.answer(engine.run(job(folder, "asks"), run_id=ID).waiting_for[0].id, "a")
        assert engine.outcome(ID).status == "queued"


def cancelled(folder: Path) -> None:
    with open_engine(folder) as engine:
        engine.run(job(folder, "asks"), run_id=ID)
        engine.cancel(ID)


@dataclass(frozen=True)
class State:
    """A run that stands somewhere, the words it is to be gone on with, and how they end."""

    make: Callable[[Path], None]
    offered: str | None
    code: int = 0
    first: Callable[[Path], None] = nothing
    sent: int = 1


STATES = {
    "deadline": State(with_a_late_deadline, "resume w47 --grant deadline=+2h"),
    "a person denied": State(denied_by_a_person, TO_FORK, code=6),
    "a rule denied": State(denied_by_a_rule, "resume w47", first=allowed_again, sent=2),
    "a rule denied later": State(approved_and_then_denied_by_a_rule, "resume w47", first=allowed_again, sent=2),
    "abandoned": State(given_up, TO_FORK, code=6, sent=2),
    "simulation missing": State(without_a_stand_in, "resume w47", first=stand_in, sent=2),
    "interrupted": State(interrupted, "resume w47"),
    "on_change": State(interrupted_and_stops_on_change, "resume w47"),
    "queued": State(answered, "resume w47", sent=0),
    "cancelled": State(cancelled, None, sent=0),
}
LINE = re.compile(r"perdure ((?:--state-dir \S+ )?(?:resume|fork) .*)$", re.MULTILINE)


def typed(folder: Path, *words: str) -> int:
    forget()
    return command_line([*words, "--state-dir", str(folder / "state")])


def offers(text: str) -> set[str]:
    """Return the words of the resumes and forks in a text, without the flags that reach the ledger."""
    found = (shlex.split(words.rstrip("`"), comments=True) for words in LINE.findall(text))
    return {re.sub(r" ?--state-dir \S+", "", shlex.join(words)).strip() for words in found}


@pytest.mark.parametrize("name", STATES)
def test_each_view_offers_the_line_that_works_and_no_other(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    state = STATES[name]
    state.make(folder)
    expected = {state.offered} if state.offered is not None else set[str]()
    with open_engine(folder) as engine:
        found = engine.outcome(ID)
        ended, files = found.status.ended, Path(found.workspace)
        told = set(engine.completion(ID)["commands"].values()) if ended else set[str]()
    assert offers(found.way.line) == offers(found.way_on) == expected
    capsys.readouterr()
    assert typed(folder, "runs", "show", ID) == 0
    assert offers(capsys.readouterr().out) == expected
    reported = {line for text in told for line in offers(text)} - {f"fork {ID}"}
    assert reported == (expected if ended else set())
    if ended:  # of others it would go on with them
        assert typed(folder, "resume", "--all") == 0
        assert offers(capsys.readouterr().out) <= {words for words in expected if words.startswith("resume ")}
    script = offers((files / "restart.sh").read_text("utf-8"))
    assert script == {words.partition(" --grant")[0] for words in expected}


@pytest.mark.parametrize("name", [name for name, state in STATES.items() if state.offered is not None])
def test_the_offered_line_is_not_refused(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    state = STATES[name]
    state.make(folder)
    forget()
    state.first(folder)
    with open_engine(folder) as engine:
        line = engine.outcome(ID).way.line
    assert shlex.split(line)[0] == "perdure"
    capsys.readouterr()
    forget()
    assert command_line(shlex.split(line, comments=True)[1:]) == state.code
    assert "error[" not in capsys.readouterr().err
    sent = folder / "sent.txt"
    assert len(sent.read_text().split() if sent.exists() else []) == state.sent


def test_a_run_that_stops_on_a_change_is_offered_by_resume_all_with_the_word_that_accepts_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted_and_stops_on_change(folder)
    (folder / "rules.policy.yaml").write_text("version: 1\nrules:\n  - tool: other\n    max_attempts: 2\n")
    assert typed(folder, "resume", "--all") == 0
    said = capsys.readouterr()
    (row,) = said.out.splitlines()[1:]
    assert "\\n" not in row
    assert "rules.policy.yaml" in row
    assert said.err.splitlines()[-1].startswith("resumed 0; skipped 1 (1 × ")
    assert f"resume {ID} --accept-change" in offers(row)
    (line,) = (found for found in LINE.findall(row))
    forget()
    assert command_line(shlex.split(line, comments=True)) == 0


@pytest.mark.parametrize(("more", "together"), [("", True), ("on_change: stop\n", False)], ids=["goes on", "stops"])
def test_the_inbox_offers_resume_all_only_for_runs_that_it_goes_on_with(
    folder: Path, capsys: pytest.CaptureFixture[str], more: str, together: bool
) -> None:
    path = job(folder, "stops", more)
    killed = subprocess.run(
        [sys.executable, "-m", "perdure", "run", str(path), "--run-id", ID, "--state-dir", str(folder / "state")],
        env={**os.environ, "PERDURE_TEST_CRASH_AFTER_TOOL": "mail"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == 137
    assert typed(folder, "inbox") == 0
    said = capsys.readouterr().err
    assert ("1 run was interrupted: perdure resume --all" in said) is together
    assert offers(said) == ({"resume --all"} if together else {f"resume {ID}"})
    with open_engine(folder, clock=FakeClock("2099-01-01T00:00:00.000000Z")) as engine:
        ((run_id, line),) = ((item.run_id, item.command) for item in engine.interrupted())
    assert (run_id, offers(line)) == (ID, {f"resume {ID}"})  # too old by then for all of them together


@pytest.mark.parametrize(
    ("name", "hint"), [("maill", "did you mean 'mail'?"), ("refund", "its tools are lose, mail, post")]
)
def test_a_stop_condition_of_a_tool_that_the_program_lacks_is_told_before_anything_is_sent(
    folder: Path, name: str, hint: str
) -> None:
    path = job(folder, "main", f"stop_conditions: [{{effect: {name}}}]\n")
    sent_by_then: list[bool] = []
    with open_engine(folder) as engine, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match=rf"stop_conditions: '{name}' is no tool") as told:
            engine.run(path, run_id=ID)
        sent_by_then.append((folder / "sent.txt").exists())
    assert (hint in str(told.value), sent_by_then) == (True, [False])
    forget()
    with open_engine(folder) as engine, pytest.warns(RuntimeWarning, match="stop_conditions"):
        assert engine.resume(ID).status == "failed"  # a warning alone holds nothing up


@pytest.mark.parametrize("effect", ["[{effect: mail}]", "[]"])
def test_a_stop_condition_of_a_tool_that_the_program_has_warns_of_nothing(folder: Path, effect: str) -> None:
    with open_engine(folder) as engine, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engine.run(job(folder, "main", f"stop_conditions: {effect}\n"), run_id=ID).status == "succeeded"


def test_a_verdict_on_a_call_of_a_cancelled_run_promises_no_caller_and_no_resume(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_engine(folder) as engine:
        lost = engine.run(job(folder, "loses"), run_id=ID).waiting_for[0].tool_call_id
        assert lost is not None
        engine.cancel(ID)
    capsys.readouterr()
    assert typed(folder, "resolve", lost, "--happened") == 0
    said = capsys.readouterr().err
    assert f"run {ID} has ended (cancelled): this is recorded, and its program does not see it" in said
    assert ("caller" in said, "resume" in said) == (False, False)


def test_giving_a_call_up_says_what_its_caller_gets(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_engine(folder) as engine:
        lost = engine.run(job(folder, "loses"), run_id=ID).waiting_for[0].tool_call_id
        assert lost is not None
    assert typed(folder, "resolve", lost, "--abandon") == 0
    assert f"the caller of {lost} gets CallAbandoned" in capsys.readouterr().err
