"""Probes: what counts as evidence, and when a probe may be asked at all (R6, semantics #8, #29)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure import Probe, VerdictRefused, tool
from tests.integration.engine_support import FAST, live, open_engine, statuses


def test_a_probe_that_finds_the_effect_of_an_equal_call_is_no_evidence(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(name="remind", side_effect_class="external", scope=["to"], probe_lag="0s")
    def remind(to: str) -> str:
        if len(sent) == 1:
            raise ConnectionResetError("before anything left")
        sent.append(to)
        return "no reference in here"

    @remind.probe
    def find(call: Any) -> Probe:
        return Probe.happened(ref="p1") if sent else Probe.not_happened(complete=True)

    waiting = live(tmp_path, lambda run: [remind("x") for _ in range(3)])
    assert (waiting.status, waiting.reason) == ("waiting", "in_doubt")
    assert statuses(tmp_path) == {"r1.1": "succeeded", "r1.2": "in_doubt"}


def test_a_probe_by_key_tells_equal_calls_apart_unattended(tmp_path: Path) -> None:
    sent: dict[str, str] = {}
    tries: list[int] = []

    @tool(name="remind", side_effect_class="external", scope=["to"], probe_lag="0s")
    def remind(to: str, *, call: Any) -> str:
        tries.append(1)
        sent[call.idempotency_key] = f"p{len(sent) + 1}"
        if len(tries) == 2:
            raise ConnectionResetError("the reply was lost")
        return "no reference in here"

    @remind.probe
    def find(call: Any) -> Probe:
        ref = sent.get(call.idempotency_key)
        return Probe.happened(ref=ref) if ref else Probe.not_happened(complete=True)

    done = live(tmp_path, lambda run: len([remind("x") for _ in range(3)]))
    assert (done.status, done.result, len(sent), len(tries)) == ("succeeded", 3, 3, 3)


def test_a_no_that_is_believed_sends_again_and_an_incomplete_one_asks(tmp_path: Path) -> None:
    tries: list[int] = []

    def make(complete: bool) -> Any:
        @tool(name="send", side_effect_class="external", probe_lag="0s")
        def send() -> str:
            tries.append(1)
            if len(tries) == 1:
                raise ConnectionResetError
            return "sent"

        @send.probe
        def find(call: Any) -> Probe:
            return Probe.not_happened(complete=complete)

        return send

    asked = make(complete=False)
    assert live(tmp_path / "a", lambda run: asked()).reason == "in_doubt"
    assert len(tries) == 1
    tries.clear()
    sure = make(complete=True)
    assert live(tmp_path / "b", lambda run: sure()).result == "sent"
    assert len(tries) == 2


def test_no_probe_is_asked_while_another_call_of_the_tool_is_being_sent(tmp_path: Path) -> None:
    log, lives = list[str](), list[Any]()

    async def main(run: Any) -> list[str]:
        lives.append(run.door.life)
        return await asyncio.gather(send("lost"), send("slow"))

    @tool(name="send", side_effect_class="external", probe_lag="0s")
    async def send(what: str) -> str:
        if what == "lost":
            log.append("lost")
            raise ConnectionResetError
        while not lives[0].operations.parked_count:  # until the lost one waits for this one
            await asyncio.sleep(0.001)
        log.append("slow sent")
        return what

    @send.probe
    async def find(call: Any) -> Probe:
        log.append("probe")
        return Probe.happened("found", ref=call.idempotency_key)

    done = live(tmp_path, main)
    assert done.result == ["found", "slow"]
    assert log[:3] == ["lost", "slow sent", "probe"]


NONSENSE: list[Any] = [
    RuntimeError("imap is down"),
    SystemExit(3),
    asyncio.CancelledError("a scope of its own"),
    "yes",
    None,
    Probe("yes"),
    Probe("happened", ref=["p1"]),  # type: ignore[arg-type]
    Probe("not_happened", complete="of course"),  # type: ignore[arg-type]
    Probe("unknown", reason=ConnectionError("down")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("answer", NONSENSE, ids=repr)
def test_a_probe_that_raises_or_answers_nonsense_is_unknown(tmp_path: Path, answer: Any, is_async: bool) -> None:
    asked: list[int] = []

    @tool(name="send", side_effect_class="external", probe_lag="0s")
    def send() -> None:
        raise ConnectionResetError

    def tell() -> Any:
        asked.append(1)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def tell_later(call: Any) -> Any:
        await asyncio.sleep(0)
        return tell()

    send.probe(tell_later if is_async else lambda call: tell())

    async def main(run: Any) -> None:
        await run.call(send)

    found = live(tmp_path, main if is_async else lambda run: send())
    assert (found.reason, len(asked)) == ("in_doubt", 1)


@pytest.mark.parametrize("program", ["sync", "async"])
@pytest.mark.parametrize("probe", ["sync", "async", "deaf"])
def test_a_probe_that_hangs_is_asked_no_longer_than_its_limit(tmp_path: Path, program: str, probe: str) -> None:
    may_end = threading.Event()

    @tool(name="send", side_effect_class="external", probe_lag="0s")
    def send() -> None:
        raise ConnectionResetError

    async def hang(call: Any) -> Probe:
        while not may_end.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                if probe != "deaf":
                    raise
        return Probe.not_happened(complete=True)

    send.probe((lambda call: may_end.wait(600)) if probe == "sync" else hang)

    async def main(run: Any) -> None:
        await run.call(send)

    tuning = replace(FAST, probe_timeout_seconds=0.1)
    found = live(tmp_path, main if program == "async" else lambda run: send(), tuning=tuning)
    may_end.set()  # not before: who waits for the probe itself waits for ever
    assert found.reason == "in_doubt"
    assert "no answer within 0.1 s" in found.waiting_for[0].summary


def test_a_reference_may_be_a_number_and_an_empty_one_is_none(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(name="send", side_effect_class="external", scope=["to"], probe_lag="0s")
    def send(to: str) -> None:
        sent.append(to)
        raise ConnectionResetError

    @send.probe
    def find(call: Any) -> Probe:
        return Probe.happened(ref=17)  # type: ignore[arg-type]

    waiting = live(tmp_path, lambda run: [send("a"), send("b")])
    assert (waiting.reason, sent) == ("in_doubt", ["a", "b"]), "the same number is no evidence for a second call"
    with open_engine(tmp_path) as engine:
        assert engine.call("r1.1")["external_correlation_id"] == "17"


def test_the_probe_lag_of_the_tool_binds_a_person_too(tmp_path: Path) -> None:
    for lag, refused in (("0s", False), ("5m", True)):

        @tool(name="send", side_effect_class="external", probe_lag=lag)
        def send() -> None:
            raise ConnectionResetError

        @send.probe
        def find(call: Any) -> Probe:
            return Probe.unknown("cannot tell")

        folder = tmp_path / lag
        live(folder, lambda run, send=send: send())
        with open_engine(folder) as engine:
            if refused:
                with pytest.raises(VerdictRefused, match=r"wait (300|2\d\d) s"):
                    engine.resolve("r1.1", "did_not_happen")
            else:
                assert engine.resolve("r1.1", "did_not_happen").status == "prepared"


LATE = """
import signal, sys, time
if sys.argv[2] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(float(sys.argv[3]))
open(sys.argv[1], "a").write("x")
"""


def child_tool(landed: Path, children: list[Any], asked: list[bool], manner: str, seconds: float) -> Any:
    """A tool that loses its answer the first time, while the child that it started goes on."""
    landed.touch()

    @tool(name="send", side_effect_class="external", scope=["to"], probe_lag=0, max_attempts=2)
    def send(to: str) -> str:
        command = [sys.executable, "-S", "-c", LATE, str(landed), manner, str(seconds if not children else 0)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=manner == "stubborn")
        children.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        if len(children) == 1:
            raise ConnectionResetError("the answer was lost, the child goes on")
        return f"ended with {child.wait()}"

    @send.probe
    def find(call: Any) -> Probe:
        asked.append(children[0].poll() is not None)
        return Probe.happened("found", ref="1") if landed.read_text() else Probe.not_happened(complete=True)

    return send


def close(children: list[Any]) -> None:
    for child in children:
        child.communicate()


def test_a_probe_waits_until_the_child_that_the_tool_started_is_gone(tmp_path: Path) -> None:
    landed, children, asked = tmp_path / "landed", list[Any](), list[bool]()
    send = child_tool(landed, children, asked, "plain", 0.1)
    assert live(tmp_path, lambda run: send("a"), tuning=replace(FAST, sender_grace_seconds=5)).result == "found"
    close(children)
    assert (len(children), landed.read_text(), all(asked)) == (1, "x", True)


@pytest.mark.parametrize("manner", ["plain", "stubborn"])
def test_a_child_that_outlives_the_wait_is_ended_with_the_life_and_only_then_is_a_no_believed(
    tmp_path: Path, manner: str
) -> None:
    landed, children, asked = tmp_path / "landed", list[Any](), list[bool]()
    send = child_tool(landed, children, asked, manner, 60)
    waiting = live(tmp_path, lambda run: send("a"))
    assert (waiting.reason, len(children), asked) == ("in_doubt", 1, [])
    assert children[0].poll() == -(signal.SIGKILL if manner == "stubborn" else signal.SIGTERM)
    done = live(tmp_path, lambda run: send("a"), resume=True)
    close(children)
    assert (done.result, len(children), landed.read_text(), asked) == ("ended with 0", 2, "x", [True, True])


def test_while_one_effect_is_in_doubt_no_other_of_the_run_is_started(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(name="lose", side_effect_class="external")
    async def lose() -> None:
        raise ConnectionResetError

    @tool(name="send", side_effect_class="external")
    async def send() -> str:
        sent.append("another tool, another person")
        return "sent"

    async def main(run: Any) -> None:
        doubt = asyncio.create_task(run.call(lose))
        while not run_is_in_doubt(run):
            await asyncio.sleep(0)
        await asyncio.gather(doubt, send())

    def run_is_in_doubt(run: Any) -> bool:
        return any(
            row.status == "in_doubt" for row in run._life.ledger.read(lambda store: store.calls.open(run.run_id))
        )

    waiting = live(tmp_path, main)
    assert (waiting.reason, sent) == ("in_doubt", [])
