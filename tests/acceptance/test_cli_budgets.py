"""Budgets at the command line, over real processes that are killed (R038, C19)."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.cli_support import Desk

AGENT = """
import json, os, signal
from perdure import CallContext, tool


@tool(side_effect_class="external", scope=["n"], key_ttl="24h")
def send(n: int, *, call: CallContext) -> int:
    log = os.open("mails.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(log, (json.dumps([n, call.idempotency_key]) + "\\n").encode())
    os.close(log)
    if os.environ.get("KILLED_AT") == str(n):
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def main(run):
    return [send(n) for n in range(4)]
"""
JOB = 'name: j\nagent: {python: "agent:main"}\nbudgets: {max_tool_calls: 3}\n'


def test_a_killed_process_gives_no_call_away_and_a_grant_survives_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("agent.py", AGENT)
    desk.write("j.job.yaml", JOB)
    assert desk.type("run", "j.job.yaml", "--run-id", "b", env={"KILLED_AT": "1"}).code == -9
    said = desk.type("resume", "b", "-o", "json")
    assert (said.code, said.document["reason"]) == (6, "budget")
    numbers = [n for n, _ in desk.mails()]
    assert numbers == [0, 1, 1, 2]
    assert len({key for _, key in desk.mails()}) == 3
    [item] = said.document["waiting_for"]
    assert item["commands"] == ["perdure resume b --grant calls=3"]
    assert "3 of 3 tool calls are used (max_tool_calls); nothing new starts until more is granted" in said.err

    assert desk.type("resume", "b", "--grant", "calls=1", env={"KILLED_AT": "3"}).code == -9
    done = desk.type("resume", "b", "-o", "json")
    assert (done.code, done.document["result"]) == (0, [0, 1, 2, 3])
    assert [n for n, _ in desk.mails()] == [0, 1, 1, 2, 3, 3]
    assert len({key for _, key in desk.mails()}) == 4
