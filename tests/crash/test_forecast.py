"""The forecast comes true: each guarantee in flight at once, SIGKILL, resume, and what an outside log has counted."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure.core.decide import CallFacts
from perdure.core.forecast import forecast
from perdure.model.toolcall import CallRow, CallStatus, ReplayPolicy, SideEffectClass
from tests.acceptance.cli_support import Desk, ended, wait_for

JOB = """
import asyncio, json, os, pathlib, time
from perdure import CallContext, Probe, tool


def log(what, key):
    handle = os.open("outside.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(handle, (json.dumps([what, key]) + "\\n").encode())
    os.close(handle)


async def hang():
    give_up = time.monotonic() + 60
    while not pathlib.Path("go").exists() and time.monotonic() < give_up:
        await asyncio.sleep(0.01)


@tool(side_effect_class="read_only")
async def read(x: str) -> str:
    log("read", "")
    await hang()
    return x


@tool(side_effect_class="external", key_ttl="24h", scope=["x"])
async def keyed(x: str, *, call: CallContext) -> str:
    log("keyed", call.idempotency_key)
    await hang()
    return x


@tool(side_effect_class="external", scope=["x"], probe_lag="0s")
async def probed(x: str) -> str:
    log("probed", "")
    await hang()
    return x


@probed.probe
def find(call: CallContext) -> Probe:
    log("probe", "")
    return Probe.happened("found", ref="ref-1")


@tool(side_effect_class="external", scope=["x"])
async def asked(x: str) -> str:
    log("asked", "")
    await hang()
    return x


@tool(side_effect_class="external", scope=["x"], approval="always")
async def approved(x: str) -> str:
    return x


async def main(run):
    return await asyncio.gather(*(t("1") for t in (read, keyed, probed, asked, approved)))
"""


def outside(folder: Path) -> Counter[str]:
    """Return how often each tool and probe was entered, and that a key never changed."""
    lines = [json.loads(line) for line in (folder / "outside.log").read_text().splitlines()]
    assert len({key for what, key in lines if what == "keyed"}) == 1
    return Counter(what for what, _ in lines)


def test_what_is_forecast_is_what_happens_after_the_kill(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("job.py", JOB)
    owner = desk.start("run", "job.py:main", "--run-id", "f", "-q")
    wait_for(lambda: (tmp_path / "outside.log").exists() and sum(outside(tmp_path).values()) == 4, "four in flight")
    told = desk.type("runs", "show", "f", "--if-killed-now", "-o", "json").document
    assert told["schema"] == "perdure.forecast/v1"
    then = {call["tool_name"]: call["then"] for call in told["calls"]}
    assert then == {
        "read": "run_again", "keyed": "sent_again", "probed": "probed", "asked": "person_asked", "approved": "still_waits",
    }  # fmt: skip
    owner.send_signal(signal.SIGKILL)
    ended(owner)
    desk.write("go", "")
    resumed = desk.type("resume", "f", "-o", "json")
    assert resumed.code == 7
    states = _states(desk)
    assert {name: states[name] for name in ("keyed", "probed", "asked", "approved")} == {
        "keyed": "succeeded", "probed": "succeeded", "asked": "in_doubt", "approved": "awaiting_approval",
    }  # fmt: skip
    assert outside(tmp_path) == {"read": 1, "keyed": 2, "probed": 1, "probe": 1, "asked": 1}
    desk.type("resolve", "@last.4", "--happened", "--resume", "-o", "json")
    assert outside(tmp_path) == {"read": 2, "keyed": 2, "probed": 1, "probe": 1, "asked": 1}
    assert _states(desk)["read"] == "succeeded"
    later = desk.type("runs", "show", "f", "--if-killed-now")
    assert "it goes on waiting for a person" in later.out
    assert "4 finished calls would return their receipts" in later.out


def _states(desk: Desk) -> dict[str, str]:
    found = desk.type("calls", "ls", "f", "-o", "json").document["calls"]
    return {call["tool_name"]: call["status"] for call in found}


def test_of_a_run_that_has_ended_nothing_would_be_done_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("job.py", "def main(run):\n    return 1\n")
    assert desk.type("run", "job.py:main", "--run-id", "f", "-q").code == 0
    assert desk.type("runs", "show", "f", "--if-killed-now").out == (
        "nothing is open in run f (succeeded): nothing would be done again\n"
    )


ROW = CallRow(
    1, "r.1", "r", "r.s0", "local", "t", SideEffectClass.EXTERNAL, ReplayPolicy.ASK, CallStatus.RUNNING, 1, 1, "h", None,
    "k", 1, "0",
)  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "then"),
    [
        ({}, "person_asked"),
        ({"replay_policy": ReplayPolicy.RECONCILE, "has_probe": True, "gone_seconds": 0.0}, "probed"),
        ({"replay_policy": ReplayPolicy.RECONCILE, "has_probe": True, "sender_alive": True}, "person_asked"),
        (
            {
                "replay_policy": ReplayPolicy.REPLAY_IDEMPOTENT,
                "first_was_keyed": True,
                "key_alive_seconds": 9.0,
                "attempts_left": 1,
            },
            "sent_again",
        ),
        (
            {
                "replay_policy": ReplayPolicy.REPLAY_IDEMPOTENT,
                "first_was_keyed": True,
                "key_alive_seconds": 9.0,
                "attempts_left": 0,
            },
            "person_asked",
        ),
        (
            {
                "replay_policy": ReplayPolicy.REPLAY_IDEMPOTENT,
                "first_was_keyed": True,
                "key_alive_seconds": -1.0,
                "attempts_left": 1,
            },
            "person_asked",
        ),
        (
            {
                "replay_policy": ReplayPolicy.REPLAY_IDEMPOTENT,
                "first_was_keyed": True,
                "key_alive_seconds": 9.0,
                "attempts_left": 1,
                "wait_seconds": 3.0,
            },
            "sent_again",
        ),
        ({"started_here": True}, "person_asked"),
    ],
)
def test_a_forecast_is_the_answer_of_the_rules_with_a_dead_owner(facts: dict[str, Any], then: str) -> None:
    found = forecast(ROW, CallFacts(**facts))
    assert found.then == then
    assert found.wait_seconds == facts.get("wait_seconds", 0.0)
