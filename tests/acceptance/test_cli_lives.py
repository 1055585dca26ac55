"""Runs that are stopped, that wait in the process, or that belong to somebody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cli_support import REPORT, TO_BOSS, Desk, ended, environment, wait_for

SLOW = """
import asyncio, os, time
from pathlib import Path
from perdure import tool


def until_released():
    Path("started").touch()
    while not Path("released").exists():
        time.sleep(0.01)


@tool(side_effect_class="external")
def send() -> str:
    with open("sent.log", "a") as log:
        log.write("sent\\n")
    until_released()
    return "sent"


@tool(side_effect_class="read_only")
async def look() -> str:
    Path("started").touch()
    while not Path("released").exists():
        await asyncio.sleep(0.01)
    return "seen"


def main(run):
    return send()


async def amain(run):
    Path("started").touch()
    while not Path("released").exists():
        await asyncio.sleep(0.01)
    return await look()


def busy(run):
    until_released()
    return "free"
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder with a job that goes on until it is released."""
    found = Desk(tmp_path)
    found.write("slow.py", SLOW)
    found.write("report.py", REPORT)
    return found


def started(desk: Desk, *words: str) -> subprocess.Popen[str]:
    """Start a run and return when its agent is at work."""
    process = desk.start("run", *words)
    wait_for((desk.folder / "started").exists, "the agent is at work")
    return process


@pytest.mark.parametrize(
    ("number", "function", "exit_code"),
    [
        (signal.SIGINT, "busy", 130),
        (signal.SIGTERM, "busy", 143),
        (signal.SIGINT, "amain", 130),
        (signal.SIGTERM, "amain", 143),
    ],
)
def test_a_stopped_run_prints_how_to_go_on(desk: Desk, number: signal.Signals, function: str, exit_code: int) -> None:
    process = started(desk, f"slow.py:{function}", "--run-id", "s", "-o", "json")
    process.send_signal(number)
    said = ended(process)
    assert said.code == exit_code
    assert "Traceback" not in said.err
    assert f"stopped by {number.name}" in said.err
    assert "go on with: perdure resume s" in said.err
    shown = desk.type("runs", "show", "s").out
    assert "running (interrupted; nobody drives it)" in shown
    assert shown.rstrip().endswith("go on with: perdure resume s")
    assert "1 run was interrupted: perdure resume --all" in desk.type("inbox").err
    (desk.folder / "released").touch()
    resumed = desk.paste(said.document["resume_command"])
    assert resumed.code == 0


@pytest.mark.parametrize("function", ["busy", "amain"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_five_fast_signals_leave_one_checkpoint_and_one_command(
    desk: Desk, number: signal.Signals, function: str
) -> None:
    process = started(desk, f"slow.py:{function}", "--run-id", "s")
    for _ in range(5):
        process.send_signal(number)
    said = ended(process)
    assert said.code == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], said
    assert said.err.count("go on with: perdure resume s") == 1, said.err
    assert "Traceback" not in said.err
    kinds = [row[5] for row in desk.rows()["checkpoints"]]
    assert kinds == ["interrupt"]
    (desk.folder / "released").touch()
    assert desk.type("resume", "s").code == 0


def test_a_signal_in_the_middle_of_a_send_leaves_it_in_doubt(desk: Desk) -> None:
    process = started(desk, "slow.py:main", "--run-id", "s")
    process.send_signal(signal.SIGTERM)
    assert ended(process).code == 143
    assert desk.type("resume", "s").code == 7
    assert desk.type("resolve", "s.1", "--happened", "--result", '"sent"', "--resume").code == 0
    assert (desk.folder / "sent.log").read_text() == "sent\n"


def test_a_live_owner_is_not_pushed_aside(desk: Desk) -> None:
    process = started(desk, "slow.py:busy", "--run-id", "s")
    refused = desk.type("resume", "s", "-o", "json")
    refused.is_error(5, "PERDURE-150")
    assert str(process.pid) in refused.document["message"]
    assert desk.type("runs", "show", "s", "-o", "json").document["status"] == "running"
    (desk.folder / "released").touch()
    assert ended(process).code == 0


def test_kill_owner(desk: Desk) -> None:
    process = started(desk, "slow.py:busy", "--run-id", "s")
    (desk.folder / "released").touch()
    os.kill(process.pid, signal.SIGSTOP)
    killed = desk.type("resume", "s", "--kill-owner", "-o", "json")
    assert ended(process).code == -signal.SIGKILL
    assert (killed.code, killed.document["result"]) == (0, "free")


def test_waiting_in_the_process_says_what_for_and_goes_on(desk: Desk) -> None:
    process = desk.start("run", "report.py:pay", "--run-id", "p", "--wait", "-o", "json")
    assert process.stderr is not None
    line = process.stderr.readline()
    while not line.strip().startswith("perdure approve "):
        assert process.poll() is None, line
        line = process.stderr.readline()
    assert desk.type("runs", "show", "p", "-o", "json").document["status"] == "running"
    approved = desk.paste(line)
    assert (approved.code, approved.out) == (0, "p.1 (wire): prepared\n")
    said = ended(process)
    assert (said.code, said.document["result"]) == (0, "wired")
    assert (desk.folder / "wires.log").read_text() == "500\n"


def test_an_agent_that_exits_has_not_succeeded(desk: Desk) -> None:
    desk.write("leaves.py", "def main(run):\n    raise SystemExit(0)\n")
    said = desk.type("run", "leaves.py:main", "--run-id", "l")
    said.is_error(1, "PERDURE-100")
    assert "next: perdure resume l" in said.err


def test_a_failed_run_is_reopened_only_by_resume(desk: Desk) -> None:
    words = ("report.py:fails", *TO_BOSS, "--run-id", "f")
    first = desk.type("run", *words, "-o", "json")
    assert (first.code, first.document["error"]) == (
        1,
        {"code": "RuntimeError", "detail": "out of paper (report.py:56 in fails)"},
    )
    assert desk.type("run", *words, "-o", "json").document["attempt"] == 1
    assert desk.type("resume", "f", "-o", "json").document["attempt"] == 2
    assert len(desk.mails()) == 1


def test_a_warning_of_a_job_s_policy_is_shown(desk: Desk) -> None:
    desk.write("p.yaml", "version: 1\nrules:\n  - tool: send_mail\n    scope: [to, subject]\n")
    desk.write(
        "j.yaml",
        'name: weekly\nagent: {python: "report:main"}\npolicies: [p.yaml]\n'
        "inputs: {topic: SQLite, to: boss@example.org}\n",
    )
    said = desk.type("run", "j.yaml")
    assert said.code == 0
    assert "warning: p.yaml:4" in said.err
    assert "subject" in said.err


def test_a_closed_pipe_is_no_error(desk: Desk) -> None:
    assert desk.type("run", "report.py:main", *TO_BOSS, "--run-id", "w47").code == 0
    reader, writer = os.pipe()
    os.close(reader)
    found = subprocess.run(
        [sys.executable, "-m", "perdure", "calls", "show", "w47.2"],
        cwd=desk.folder,
        env=environment({}),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (found.returncode, found.stderr) == (0, "")


def test_runs_are_cancelled_by_the_command_line(desk: Desk) -> None:
    assert desk.type("run", "report.py:pay", "--run-id", "p").code == 6
    assert desk.type("run", "report.py:main", *TO_BOSS, "--run-id", "m").code == 0
    wrong = desk.type("runs", "cancel", "p", "nobody", "-o", "json")
    wrong.is_error(3, "PERDURE-141")
    assert desk.type("runs", "show", "p", "-o", "json").document["status"] == "waiting", (
        "a wrong id: nothing is changed"
    )
    both = desk.type("runs", "cancel", "p", "m", "--reason", "not needed", "-o", "json")
    said = {item["run_id"]: item for item in both.document["runs"]}
    assert (both.code, both.document["schema"]) == (1, "perdure.cancel/v1")
    assert (said["p"]["status"], said["m"]["status"]) == ("cancelled", "succeeded")
    assert "not needed" in said["p"]["said"]
    assert desk.type("runs", "cancel", "p").code == 0, "once more changes nothing"
    desk.type("resume", "p").is_error(11, "PERDURE-152")
    assert desk.type("run", "report.py:pay", "--run-id", "p", "-o", "json").code == 11
    assert not (desk.folder / "wires.log").exists()
