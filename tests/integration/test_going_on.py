"""``resume --all``: what can go on does, and everything else is told, with the reason and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.cli.main import main as perdure
from perdure.core.going_on import Candidate, why_skipped
from perdure.model.run import RunStatus
from perdure.testing import FakeClock
from tests.integration.engine_support import open_engine

AGENT = """
import os
from perdure import tool

@tool(side_effect_class="external", scope=["to"])
def send(to: str) -> str:
    with open("sent.txt", "a") as sent:
        sent.write(to + "\\n")
    return to

@tool(side_effect_class="external", approval="always")
def pay(cents: int) -> int:
    return cents

def mail(run):
    send(run.run_id)
    if os.path.exists("stop"):
        raise KeyboardInterrupt
    return "sent"

def bill(run):
    return pay(5)

def leave(run):
    raise SystemExit(3)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent_of_all.py").write_text(AGENT)
    return tmp_path


def start(folder: Path, function: str, run_id: str, clock: FakeClock | None = None) -> None:
    with open_engine(folder, clock=clock) as engine:
        engine.run(f"agent_of_all.py:{function}", run_id=run_id)


def interrupted(folder: Path, run_id: str, clock: FakeClock | None = None, function: str = "mail") -> None:
    (folder / "stop").touch()
    with pytest.raises(KeyboardInterrupt):
        start(folder, function, run_id, clock)
    (folder / "stop").unlink()


def test_what_was_interrupted_goes_on_oldest_first_and_what_waits_or_has_ended_is_told(folder: Path) -> None:
    interrupted(folder, "one")
    interrupted(folder, "two")
    start(folder, "bill", "waits")
    start(folder, "mail", "ended")
    with open_engine(folder) as engine:
        engine.run(lambda run: 1 / 0, run_id="broken")
        found = engine.resume_all()
        again = engine.resume_all()
    assert [(outcome.run_id, outcome.status) for outcome in found.resumed] == [
        ("one", "succeeded"),
        ("two", "succeeded"),
    ]
    assert [(item.run_id, item.why) for item in found.skipped] == [
        ("waits", "it waits (approval)"),
        ("broken", "it has ended (failed)"),
    ]
    assert (dict(found.ended), found.exit_code) == ({"succeeded": 1}, 0)
    assert found.summary() == (
        "resumed 2 (2 × succeeded); skipped 2 (1 × it has ended (failed), 1 × it waits (approval)); 1 succeeded before"
    )
    assert (len(again.resumed), dict(again.ended)) == (0, {"succeeded": 3})
    assert (folder / "sent.txt").read_text().split() == ["one", "two", "ended"]  # each once


def test_a_run_in_which_nothing_happened_for_long_is_left_and_told(folder: Path) -> None:
    clock = FakeClock("2026-01-01T00:00:00.000000Z")
    interrupted(folder, "old", clock)
    clock.advance(25 * 3600)
    interrupted(folder, "young", clock)
    with open_engine(folder, clock=clock) as engine:
        found = engine.resume_all()
        assert [outcome.run_id for outcome in found.resumed] == ["young"]
        (left,) = found.skipped
        assert left.why == "nothing has happened in it for longer than 24h"
        assert left.command.startswith("perdure resume old")
        assert [outcome.run_id for outcome in engine.resume_all(max_age_seconds=26 * 3600).resumed] == ["old"]


def test_a_run_whose_timer_has_come_goes_on_and_one_that_is_not_due_is_told(folder: Path) -> None:
    (folder / "sleeper.py").write_text("def main(run):\n    run.sleep(3600)\n    return 'awake'\n")
    clock = FakeClock("2026-01-01T00:00:00.000000Z")
    with open_engine(folder, clock=clock) as engine:
        assert engine.run("sleeper.py:main", run_id="night").reason == "timer"
        assert [item.why for item in engine.resume_all().skipped] == ["it waits (timer)"]
        clock.advance(3601)
        assert [outcome.result for outcome in engine.resume_all().resumed] == ["awake"]


def test_one_program_that_is_gone_or_leaves_keeps_no_other_from_going_on(folder: Path) -> None:
    interrupted(folder, "first")
    with open_engine(folder) as engine, pytest.raises(SystemExit):
        engine.run("agent_of_all.py:leave", run_id="leaves")
    (folder / "gone.py").write_text("def main(run):\n    raise KeyboardInterrupt\n")
    with open_engine(folder) as engine, pytest.raises(KeyboardInterrupt):
        engine.run("gone.py:main", run_id="gone")
    (folder / "gone.py").write_text("def other(run):\n    pass\n")
    import sys

    del sys.modules["gone"]
    with open_engine(folder) as engine:
        found = engine.resume_all()
    assert [outcome.run_id for outcome in found.resumed] == ["first"]
    why = {item.run_id: item.why for item in found.skipped}
    assert why["leaves"] == "its code left with sys.exit(3)"
    assert "has no function 'main'" in why["gone"]


def test_two_programs_of_one_name_are_never_taken_for_each_other(folder: Path) -> None:
    for name, says in (("a", "first"), ("b", "second")):
        place = folder / name
        place.mkdir()
        (place / "namesake.py").write_text(
            f"import os\ndef main(run):\n    if os.path.exists('stop'): raise KeyboardInterrupt\n    return '{says}'\n"
        )
        (place / "x.job.yaml").write_text("name: x\nagent: {python: 'namesake:main'}\n")
    (folder / "stop").touch()
    import sys

    for name in ("a", "b"):
        sys.modules.pop("namesake", None)
        with open_engine(folder) as engine, pytest.raises(KeyboardInterrupt):
            sys.path[:] = [entry for entry in sys.path if not entry.startswith(str(folder))]
            engine.run(folder / name / "x.job.yaml", run_id=name)
    (folder / "stop").unlink()
    sys.modules.pop("namesake", None)
    sys.path[:] = [entry for entry in sys.path if not entry.startswith(str(folder))]
    with open_engine(folder) as engine:
        found = engine.resume_all()
    assert [(outcome.run_id, outcome.result) for outcome in found.resumed] == [("a", "first")]
    assert [(item.run_id, "another module 'namesake'" in item.why) for item in found.skipped] == [("b", True)]


def test_the_command_prints_one_document_and_one_notice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(folder, "one")
    start(folder, "bill", "waits")
    capsys.readouterr()
    assert perdure(["resume", "--all", "--max-age", "7d", "--state-dir", "state", "-o", "json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["schema"] == "perdure.resume_all/v1"
    assert [run["run_id"] for run in document["resumed"]] == ["one"]
    assert [run["run_id"] for run in document["skipped"]] == ["waits"]
    assert said.err.splitlines() == ["resumed 1 (1 × succeeded); skipped 1 (1 × it waits (approval))"]


@pytest.mark.parametrize(
    "words", [["resume"], ["resume", "r1", "--all"], ["resume", "--all", "--wait"], ["resume", "r1", "--max-age", "1h"]]
)
def test_a_run_or_all_of_them_and_nothing_that_does_not_fit(folder: Path, words: list[str]) -> None:
    start(folder, "mail", "r1")
    assert perdure([*words, "--state-dir", "state"]) == 2


def test_the_gravest_end_is_the_exit_code(folder: Path) -> None:
    interrupted(folder, "fine")
    (folder / "poor.py").write_text(
        "import os\ndef main(run):\n    if os.path.exists('stop'): raise KeyboardInterrupt\n    raise ValueError('no')\n"
    )
    (folder / "stop").touch()
    with open_engine(folder) as engine, pytest.raises(KeyboardInterrupt):
        engine.run("poor.py:main", run_id="poor")
    (folder / "stop").unlink()
    with open_engine(folder) as engine:
        assert engine.resume_all().exit_code == 1


@pytest.mark.parametrize(
    ("status", "owner", "loadable", "why"),
    [
        (RunStatus.QUEUED, "", True, None),
        (RunStatus.RUNNING, "", True, None),
        (RunStatus.RUNNING, "process 7", True, "its lease is held by process 7"),
        (RunStatus.QUEUED, "", False, "its program cannot be loaded from outside; start it again"),
    ],
)
def test_who_may_go_on(status: RunStatus, owner: str, loadable: bool, why: str | None) -> None:
    assert why_skipped(Candidate(status, None, owner, False, 5.0, loadable), 60.0) == why
